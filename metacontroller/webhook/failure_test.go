package webhook

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rtj.dev/rtj/metacontroller/applier"
)

// causeOf returns what a failure is counted as.
func causeOf(t *testing.T, err error) applier.Cause {
	t.Helper()
	var failure *applier.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("no Failure: %v", err)
	}
	return failure.Cause
}

func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		code  int
		body  string
		want  string
		cause applier.Cause
	}{
		"500":               {500, "it\nbroke\x00 \xff", "status 500 Internal Server Error: it broke� �", applier.CauseStatus},
		"no body":           {404, "", "status 404 Not Found: no body", applier.CauseStatus},
		"no other success":  {202, "{}", "status 202 Accepted: {}", applier.CauseStatus},
		"no content":        {204, "", "status 204 No Content: no body", applier.CauseStatus},
		"not modified":      {304, "", "status 304 Not Modified: no body", applier.CauseStatus},
		"precondition":      {412, "", "status 412 Precondition Failed: no body", applier.CauseStatus},
		"throttled":         {429, "busy", "status 429 Too Many Requests: busy", applier.CauseThrottled},
		"of another world":  {799, "x", "status 799: x", applier.CauseStatus},
		"512 bytes":         {500, strings.Repeat("a", 512), "status 500 Internal Server Error: " + strings.Repeat("a", 512), applier.CauseStatus},
		"more than 512":     {500, strings.Repeat("a", 513), "status 500 Internal Server Error: " + strings.Repeat("a", 512) + " ...", applier.CauseStatus},
		"a large body":      {500, strings.Repeat("é", 1<<20), "status 500 Internal Server Error: " + strings.Repeat("é", 256) + " ...", applier.CauseStatus},
		"query and no user": {500, "key=qqq-secret", "status 500 Internal Server Error: [redacted]", applier.CauseStatus},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Private", "of the header")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			})
			address := strings.Replace(server.URL, "http://", "http://user:url-secret@", 1) + "/sync?key=qqq-secret"
			h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+address+`"}}}`))
			_, err := h.Sync(t.Context(), request())
			if want := "POST " + server.URL + "/sync: " + c.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if cause := causeOf(t, err); cause != c.cause {
				t.Errorf("counted as %s", cause)
			}
		})
	}
}

// A 429 asks for a delay, in seconds or until a date. One that says nothing or
// nonsense asks all the same; the applier then waits a second at least.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                               0,
		"7":                              7 * time.Second,
		"0":                              0,
		"-5":                             0,
		"1.5":                            0,
		"soon":                           0,
		"99999999":                       maxRetryAfter,
		"99999999999999999999":           0,
		"Sun, 29 Nov 2026 10:01:30 GMT":  90 * time.Second,
		"Sunday, 29-Nov-26 10:01:30 GMT": 90 * time.Second,
		"Sun, 29 Nov 2026 09:00:00 GMT":  0,
		"Tue, 29 Nov 2050 09:00:00 GMT":  maxRetryAfter,
	} {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		})
		h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`"}}}`))
		h.sync.now = func() time.Time { return now }
		_, err := h.Sync(t.Context(), request())
		var asked *applier.RetryAfter
		if !errors.As(err, &asked) || asked.Delay != want {
			t.Errorf("%q: %v, want %s", header, err, want)
		}
		if causeOf(t, err) != applier.CauseThrottled {
			t.Errorf("%q: not counted as throttled", header)
		}
	}
}

// 503 may say when to come back; without that it is a failure like others.
func TestUnavailable(t *testing.T) {
	header := "3"
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if header != "" {
			w.Header().Set("Retry-After", header)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`"}}}`))
	_, err := h.Sync(t.Context(), request())
	var asked *applier.RetryAfter
	if !errors.As(err, &asked) || asked.Delay != 3*time.Second || causeOf(t, err) != applier.CauseStatus {
		t.Errorf("got %v", err)
	}
	header = ""
	if _, err = h.Sync(t.Context(), request()); errors.As(err, &asked) {
		t.Errorf("asked for a delay that nobody named: %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	valid := func(n int) string {
		const around = `{"status":{"a":""}}`
		return strings.Replace(around, `""`, `"`+strings.Repeat("x", n-len(around))+`"`, 1)
	}
	zipped := func(body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, body)
			_ = z.Close()
		}
	}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"as large as may be": {answering(valid(10000)), ""},
		"announced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "104857600")
			_, _ = io.WriteString(w, valid(20000))
		}, "the answer has 104857600 bytes, more than the 10000 that are accepted"},
		"not announced": {func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			answering(valid(10001))(w, r)
		}, "the answer has more than the 10000 bytes that are accepted"},
		"zipped": {zipped(valid(10000)), ""},
		"a bomb": {zipped(valid(100 << 20)), "the answer has more than the 10000 bytes that are accepted"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 4096)); err != nil {
					return
				}
			}
		}, "the answer has more than the 10000 bytes that are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, c.serve)
			h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`"}}}`), func(o *Options) { o.MaxResponseBytes = 10000 })
			_, err := h.Sync(t.Context(), request())
			switch {
			case c.want == "":
				if err != nil {
					t.Error(err)
				}
			case err == nil || err.Error() != "POST "+server.URL+": "+c.want || causeOf(t, err) != applier.CauseTooLarge:
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestNoBoundInPractice(t *testing.T) {
	server := serve(t, answering(`{"status":{"a":1}}`))
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`"}}}`), func(o *Options) { o.MaxResponseBytes = math.MaxInt64 })
	if got, err := h.Sync(t.Context(), request()); err != nil || string(got.Status) != `{"a":1}` {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNoCompleteAnswer(t *testing.T) {
	hang := func(r *http.Request) {
		// The body is read so that the server sees when the client goes.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	cut := func(w http.ResponseWriter, r *http.Request, head string) {
		_, _ = io.Copy(io.Discard, r.Body) // what is not read would reset the connection
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, head)
		_ = conn.Close()
	}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
		cause applier.Cause
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) { hang(r) }, "no complete answer within 100ms, the timeout of the hook", applier.CauseTimeout},
		"a slow body": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"children":[`)
			w.(http.Flusher).Flush()
			hang(r)
		}, "no complete answer within 100ms, the timeout of the hook", applier.CauseTimeout},
		"a slow body of an error": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `not today`)
			w.(http.Flusher).Flush()
			hang(r)
		}, "status 500 Internal Server Error: not today", applier.CauseStatus},
		"cut before the answer": {func(w http.ResponseWriter, r *http.Request) { cut(w, r, "") }, "EOF", applier.CauseConnection},
		"cut in the middle": {func(w http.ResponseWriter, r *http.Request) {
			cut(w, r, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"children\":[]}")
		}, "the answer broke off after 15 bytes: unexpected EOF", applier.CauseConnection},
		"cut between chunks": {func(w http.ResponseWriter, r *http.Request) {
			cut(w, r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n{\"children\":[]}\r\n")
		}, "the answer broke off after 15 bytes: unexpected EOF", applier.CauseConnection},
		"no HTTP": {func(w http.ResponseWriter, r *http.Request) { cut(w, r, "SSH-2.0-OpenSSH\r\n\r\n") },
			`malformed HTTP response "SSH-2.0-OpenSSH"`, applier.CauseConnection},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, c.serve)
			timeout := "20s"
			if c.cause == applier.CauseTimeout || strings.HasPrefix(name, "a slow") {
				timeout = "100ms"
			}
			h := newFixture(t, controllerOf(t, `{sync: {webhook: {timeout: `+timeout+`, url: "`+server.URL+`"}}}`))
			_, err := h.Sync(t.Context(), request())
			if err == nil || !strings.HasPrefix(err.Error(), "POST "+server.URL+": ") || !strings.HasSuffix(err.Error(), c.want) || causeOf(t, err) != c.cause {
				t.Errorf("got  %v\nwant ... %s", err, c.want)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	address := "http://127.0.0.1:" + strconv.Itoa(port)
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+address+`"}}}`))
	_, err = h.Sync(t.Context(), request())
	if err == nil || !strings.HasPrefix(err.Error(), "POST "+address+": dial tcp 127.0.0.1:") || !strings.HasSuffix(err.Error(), "connection refused") || causeOf(t, err) != applier.CauseConnection {
		t.Errorf("got %v", err)
	}
}

// From outside of the cluster the name of a Service leads nowhere, and the error
// says why.
func TestServiceOutsideOfTheCluster(t *testing.T) {
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {service: {name: hooks, namespace: ns}, path: /sync}}}`))
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "hooks.ns", IsNotFound: true}}
	err := h.sync.broken(t.Context(), &access{}, "", unknown)
	want := "POST http://hooks.ns:80/sync: dial tcp: lookup hooks.ns: no such host (the name of a Service is known to the cluster's DNS only: from elsewhere, give the hook's url)"
	if err.Error() != want || causeOf(t, err) != applier.CauseConnection {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	called := make(chan struct{})
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(called)
		<-r.Context().Done()
	})
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`"}}}`))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-called; cancel() }()
	if _, err := h.Sync(ctx, request()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// One call is one request: a hook may count on that.
func TestOneAttemptACall(t *testing.T) {
	var calls atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			answering(`{}`)(w, r) // leaves a connection to be used again
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	})
	h := newFixture(t, controllerOf(t, `{sync: {webhook: {url: "`+server.URL+`"}}}`))
	if _, err := h.Sync(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Sync(t.Context(), request()); err == nil {
		t.Error("no error")
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d requests for two calls", n)
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("s", 5000)
	for name, c := range map[string]struct {
		body    string
		secrets []string
		want    string
	}{
		"none":                    {"  plain\r\n\ttext ", nil, "plain   text"},
		"a secret":                {"token abc is bad: abc", []string{"abc"}, "token [redacted] is bad: [redacted]"},
		"several":                 {"abc xyz", []string{"abc", "xyz"}, "[redacted] [redacted]"},
		"a long one at the edge":  {strings.Repeat("a", 510) + long + "z", []string{long}, strings.Repeat("a", 510) + "[redacted] ..."},
		"a long one, then others": {long + "rest", []string{long}, "[redacted] ..."},
		"beyond the edge":         {strings.Repeat("a", 512) + "abc", []string{"abc"}, strings.Repeat("a", 512) + " ..."},
		"a rune at the edge":      {strings.Repeat("a", 511) + "é", nil, strings.Repeat("a", 511) + "é"},
	} {
		if got := excerpt(strings.NewReader(c.body), c.secrets); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}
