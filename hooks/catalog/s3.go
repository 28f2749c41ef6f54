package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"rtj.dev/rtj/compose/checkpoint"
)

// S3Options tune how S3-compatible stores are reached. The zero value is good.
type S3Options struct {
	// Transport sends the requests; nil means one with timeouts for connecting.
	Transport http.RoundTripper
	// PageSize is the number of objects in a page of a listing; 0 means 1000.
	PageSize int
}

// requestTries is how often a request is sent that fails for a reason that may
// pass.
const requestTries = 3

// maxClients bounds the clients that are kept for reuse.
const maxClients = 256

// OpenS3 returns an Opener of S3-compatible stores that keeps connections and
// clients for reuse.
func OpenS3(o S3Options) Opener {
	if o.Transport == nil {
		o.Transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: 30 * time.Second,
			MaxIdleConnsPerHost:   32,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
		}
	}
	clients := &s3Clients{byKey: map[[sha256.Size]byte]*minio.Core{}}
	return func(l Location, c *Credentials) (Store, error) {
		bucket, prefix, err := splitS3(l.URI)
		if err != nil {
			return nil, err
		}
		client, err := clients.open(l, c, o.Transport)
		if err != nil {
			return nil, err
		}
		return &s3Store{client: client, bucket: bucket, prefix: prefix, pageSize: o.PageSize, explain: explainer{
			where: describe(l, bucket), ambient: c == nil, credentials: c,
		}}, nil
	}
}

// splitS3 takes s3://bucket/prefix apart; a prefix that is not empty ends with
// a slash.
func splitS3(uri string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(uri, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	if !ok || bucket == "" {
		return "", "", &Error{checkpoint.Unreachable, fmt.Sprintf("storage.uri %q is not s3://bucket/prefix", uri)}
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return bucket, prefix, nil
}

func describe(l Location, bucket string) string {
	if l.Endpoint == "" {
		return "bucket " + bucket + " on AWS"
	}
	return "bucket " + bucket + " at " + l.Endpoint
}

// s3Clients keeps a client for each endpoint, region and credentials, so that
// the region of a bucket and the environment's credentials are asked for once.
type s3Clients struct {
	mu    sync.Mutex
	byKey map[[sha256.Size]byte]*minio.Core
}

func (s *s3Clients) open(l Location, c *Credentials, transport http.RoundTripper) (*minio.Core, error) {
	key := clientKey(l, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.byKey[key]; client != nil {
		return client, nil
	}
	host, secure, region := "s3.amazonaws.com", true, l.Region
	if l.Endpoint != "" {
		u, err := url.Parse(l.Endpoint)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" ||
			u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return nil, &Error{checkpoint.Unreachable, "storage.endpoint is not http://host:port or https://host:port"}
		}
		host, secure = u.Host, u.Scheme == "https"
		if region == "" {
			region = "us-east-1"
		}
	}
	core, err := minio.NewCore(host, &minio.Options{
		Creds: credentialsOf(c), Secure: secure, Region: region,
		Transport: transport, MaxRetries: requestTries,
	})
	if err != nil {
		return nil, &Error{checkpoint.Unreachable, fmt.Sprintf("storage.endpoint %s: %v", host, err)}
	}
	if len(s.byKey) >= maxClients {
		clear(s.byKey)
	}
	s.byKey[key] = core
	return core, nil
}

// clientKey keeps the secrets themselves out of the map's keys.
func clientKey(l Location, c *Credentials) [sha256.Size]byte {
	parts := []string{l.Endpoint, l.Region}
	if c != nil {
		parts = append(parts, c.AccessKeyID, c.SecretAccessKey, c.SessionToken)
	}
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

func credentialsOf(c *Credentials) *credentials.Credentials {
	if c != nil {
		return credentials.NewStaticV4(c.AccessKeyID, c.SecretAccessKey, c.SessionToken)
	}
	return ambientCredentials()
}

type s3Store struct {
	client   *minio.Core
	bucket   string
	prefix   string
	pageSize int
	explain  explainer
}

func (s *s3Store) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		// The library's iterator ends early only when its context does.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		options := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true, MaxKeys: s.pageSize}
		for info := range s.client.ListObjectsIter(ctx, s.bucket, options) {
			if info.Err != nil {
				yield(Object{}, s.explain.failure(ctx, "listing "+prefix, info.Err))
				return
			}
			if !yield(s.object(info), nil) {
				return
			}
		}
		// A context that ended in between ends the iterator without an error.
		if err := ctx.Err(); err != nil {
			yield(Object{}, s.explain.failure(ctx, "listing "+prefix, err))
		}
	}
}

func (s *s3Store) Get(ctx context.Context, key string, maxBytes int64) ([]byte, Object, error) {
	body, info, _, err := s.client.GetObject(ctx, s.bucket, s.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		if missingKey(err) {
			return nil, Object{}, ErrNotExist
		}
		return nil, Object{}, s.explain.failure(ctx, "reading "+key, err)
	}
	defer body.Close()
	o := s.object(info)
	o.Key = key
	if o.Bytes > maxBytes {
		return nil, o, &TooLargeError{Bytes: o.Bytes, Max: maxBytes}
	}
	data, err := io.ReadAll(io.LimitReader(body, maxBytes+1))
	switch {
	case err == nil && int64(len(data)) > maxBytes:
		return nil, o, &TooLargeError{Bytes: int64(len(data)), Max: maxBytes}
	case err == nil && o.Bytes >= 0 && int64(len(data)) != o.Bytes:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, o, s.explain.failure(ctx, "reading "+key, err)
	}
	return data, o, nil
}

func (s *s3Store) object(info minio.ObjectInfo) Object {
	return Object{
		Key: strings.TrimPrefix(info.Key, s.prefix), Bytes: info.Size,
		ETag: strings.Trim(info.ETag, `"`), Modified: info.LastModified,
	}
}

// missingKey is strict about the code: servers answer 404 for other reasons too.
func missingKey(err error) bool {
	response, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && response.Code == minio.NoSuchKey
}
