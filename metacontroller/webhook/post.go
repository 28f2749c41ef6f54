package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

// maxRetryAfter bounds for how long a hook can ask to be left alone.
const maxRetryAfter = time.Hour

// post calls a hook once and decodes its answer.
func post[Response any](ctx context.Context, h *hook, parent identity, body []byte,
	strict func([]byte) (*Response, error), loose func([]byte) (*Response, []*contract.Error, error)) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	access, err := h.connection.access(ctx)
	if err != nil {
		return nil, &applier.Failure{Cause: applier.CauseCredentials, Err: err}
	}
	var kept *answer
	key, cache := answerKey{h.name, parent.UID}, h.kept
	if parent.UID == "" {
		cache = nil // it would not be known again
	}
	if cache != nil {
		kept = cache.get(key, h.now())
	}
	got, err := h.send(ctx, access, body, kept)
	if err != nil {
		return nil, err
	}

	var response *Response
	if h.loose {
		var passedOver []*contract.Error
		if response, passedOver, err = loose(got.body); len(passedOver) > 0 {
			h.logger.Debug("passed over a part of the answer", "first", h.tidy(access, passedOver[0].Error()), "parts", len(passedOver),
				"namespace", parent.Namespace, "name", parent.Name)
		}
	} else {
		response, err = strict(got.body)
	}
	if err != nil {
		what := excerptOf([]byte(err.Error()), maxExcerpt, h.hides(access))
		if begins := excerptOf(got.body, maxExcerpt, h.hides(access)); begins != "" {
			what += "; it begins: " + begins
		}
		return nil, h.failed(access, applier.CauseAnswer, "answer not understood: %s", what)
	}
	switch {
	case cache == nil || got == kept:
	case got.etag == "":
		cache.drop(key)
	default:
		// Only what was understood is kept, or an answer that is refused would be
		// the answer for as long as it is not modified.
		got.key, got.expires = key, h.now().Add(h.keep)
		cache.put(got)
	}
	return response, nil
}

// send does the one request of a call. It returns kept if the hook says that its
// answer is still that.
func (h *hook) send(ctx context.Context, access *access, body []byte, kept *answer) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, h.failed(access, applier.CauseConnection, "%v", withoutURL(err))
	}
	request.Header.Set("Content-Type", "application/json")
	if access.authorization != "" {
		request.Header.Set("Authorization", access.authorization)
	}
	if kept != nil {
		request.Header.Set("If-None-Match", kept.etag)
	}
	response, err := access.client.Do(request)
	if err != nil {
		return nil, h.broken(ctx, access, "", withoutURL(err))
	}
	defer response.Body.Close()
	h.self.note(response)
	switch code := response.StatusCode; {
	case code == http.StatusOK:
	case kept != nil && (code == http.StatusNotModified || code == http.StatusPreconditionFailed):
		return kept, nil
	default:
		return nil, h.statusError(access, response)
	}
	if response.ContentLength > h.maxBytes {
		return nil, h.failed(access, applier.CauseTooLarge, "the answer has %d bytes, more than the %d that are accepted", response.ContentLength, h.maxBytes)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, h.maxBytes+1))
	switch {
	case int64(len(data)) > h.maxBytes:
		return nil, h.failed(access, applier.CauseTooLarge, "the answer has more than the %d bytes that are accepted", h.maxBytes)
	case err != nil:
		return nil, h.broken(ctx, access, fmt.Sprintf("the answer broke off after %d bytes: ", len(data)), err)
	}
	return &answer{etag: response.Header.Get("ETag"), body: data}, nil
}

// broken tells what became of a request that has no complete answer.
func (h *hook) broken(ctx context.Context, access *access, what string, err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case ctx.Err() != nil:
		return h.failed(access, applier.CauseTimeout, "no complete answer within %s, the timeout of the hook", h.timeout)
	case isTLS(err):
		h.connection.suspect(access)
		return h.failed(access, applier.CauseTLS, "%s%v", what, err)
	case errors.As(err, &dns) && h.byService:
		return h.failed(access, applier.CauseConnection, "%s%v (the name of a Service is known to the cluster's DNS only: from elsewhere, give the hook's url)", what, err)
	case what == "" && h.url.Scheme == "https" && h.connection.settings.ClientTLS != nil && !isDial(err):
		// In TLS 1.3 a server looks at the client's certificate after the client
		// has begun to send. Its alert is lost if it closes before all is sent.
		h.connection.suspect(access)
		return h.failed(access, applier.CauseConnection, "%v (perhaps the hook does not accept the certificate of clientTLS)", err)
	default:
		return h.failed(access, applier.CauseConnection, "%s%v", what, err)
	}
}

// isDial tells whether no connection came to be.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// statusError tells what a status that is no success means.
func (h *hook) statusError(access *access, response *http.Response) error {
	code := response.StatusCode
	if code == http.StatusUnauthorized {
		h.connection.suspect(access)
	}
	said := excerpt(response.Body, h.hides(access))
	if said == "" {
		said = "no body"
	}
	status := strings.TrimSpace(fmt.Sprintf("status %d %s", code, http.StatusText(code)))
	if to, err := response.Location(); err == nil && code >= 300 && code < 400 {
		return h.failed(access, applier.CauseStatus, "%s: redirects to %s, which is not followed: only 307 and 308 keep a POST a POST, credentials stay on their host, and https stays https", status, shown(to))
	}
	cause := applier.CauseStatus
	after := response.Header.Get("Retry-After")
	if code == http.StatusTooManyRequests {
		cause = applier.CauseThrottled
	}
	err := h.failed(access, cause, "%s: %s", status, said)
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable && after != "" {
		return &applier.RetryAfter{Delay: retryAfter(after, h.now()), Err: err}
	}
	return err
}

// retryAfter reads the header Retry-After: seconds, or a date (RFC 9110, section
// 10.2.3). What cannot be understood is zero, which means that nothing is said.
func retryAfter(header string, now time.Time) time.Duration {
	var delay time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		delay = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		delay = date.Sub(now)
	}
	return min(max(delay, 0), maxRetryAfter)
}

// failed makes the error of a call. It names the address; the applier adds which
// hook it was.
func (h *hook) failed(access *access, cause applier.Cause, format string, args ...any) error {
	text := h.tidy(access, fmt.Sprintf(format, args...))
	return &applier.Failure{Cause: cause, Err: fmt.Errorf("POST %s: %s", h.target, text)}
}

// withoutURL is the error of a request without its URL, which may hold secrets.
func withoutURL(err error) error {
	var with *url.Error
	if errors.As(err, &with) {
		return with.Err
	}
	return err
}

func (h *hook) tidy(access *access, text string) string {
	return excerptOf([]byte(text), maxErrorText, h.hides(access))
}

// hides returns what no error may show.
func (h *hook) hides(access *access) []string { return slices.Concat(h.hidden, access.hidden) }

// note tells, once, what a person may not expect of how a hook is reached.
func (h *hook) note() error {
	request := &http.Request{Method: http.MethodPost, URL: h.url}
	proxy, err := http.ProxyFromEnvironment(request)
	if err != nil {
		// Its text repeats the variable, which may hold a password.
		return errors.New("the environment variable HTTP_PROXY or HTTPS_PROXY is no URL")
	}
	if proxy != nil {
		h.logger.Info("the hook is called through a proxy, as the environment says (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)", "url", h.String(), "proxy", proxy.Host)
	}
	if h.url.Scheme == "http" && h.connection.hasCredentials() {
		h.logger.Warn("credentials go to the hook over plain http", "url", h.String())
	}
	if h.url.User != nil {
		h.logger.Warn("the url of the hook holds a user name, which everyone sees who can read the CompositeController: use basicAuth", "url", h.String())
	}
	return nil
}
