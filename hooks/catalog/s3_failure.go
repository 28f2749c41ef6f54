package catalog

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"rtj.dev/rtj/compose/checkpoint"
)

// explainer turns errors of an S3 client into failures that a person can act
// on. They name bucket and endpoint, and hold neither URL nor credentials.
type explainer struct {
	where       string
	ambient     bool
	credentials *Credentials
}

func (e explainer) failure(ctx context.Context, doing string, err error) error {
	kind, what := e.judge(ctx, err)
	return &Error{Kind: kind, Message: fmt.Sprintf("%s: %s: %s", e.where, doing, e.redact(what))}
}

func (e explainer) judge(ctx context.Context, err error) (checkpoint.FailureKind, string) {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok && response.Code != "" {
		said := response.Code
		if response.StatusCode != 0 {
			said = fmt.Sprintf("%s (HTTP %d)", response.Code, response.StatusCode)
		}
		if response.Message != "" {
			said += ": " + strings.TrimSpace(response.Message)
		}
		switch {
		case response.Code == minio.NoSuchBucket:
			return checkpoint.BucketNotFound, "the bucket does not exist"
		case response.StatusCode == http.StatusForbidden, response.StatusCode == http.StatusUnauthorized,
			response.Code == minio.AccessDenied, response.Code == unknownUser:
			if e.ambient {
				said += "; no Secret is named, so the environment's credentials were used"
			}
			return checkpoint.AccessDenied, said
		}
		return checkpoint.Unreachable, said
	}
	// The caller's deadline ends a request with errors of many shapes.
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return checkpoint.Unreachable, "no answer in time"
	}
	if errors.Is(err, context.Canceled) {
		return checkpoint.Unreachable, "the reading was given up"
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err // without the URL
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return checkpoint.Unreachable, fmt.Sprintf("the name %s cannot be resolved", dns.Name)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return checkpoint.Unreachable, "its certificate is signed by an unknown authority"
	}
	return checkpoint.Unreachable, err.Error()
}

// unknownUser is versitygw's answer, with status 404, to an access key that it
// does not know.
const unknownUser = "XAdminUserNotFound"

// shortestSecret: a shorter one is no secret, and may be part of any word.
const shortestSecret = 4

// redact removes from what a server or a library said what it was sent.
func (e explainer) redact(message string) string {
	if c := e.credentials; c != nil {
		for _, secret := range []string{c.SecretAccessKey, c.SessionToken, c.AccessKeyID} {
			if len(secret) >= shortestSecret {
				message = strings.ReplaceAll(message, secret, "***")
			}
		}
	}
	const longest = 384
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + "..."
	}
	return message
}
