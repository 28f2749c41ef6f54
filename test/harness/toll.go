package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// Request is a write of a runner on its way to the API server.
type Request struct {
	Method string
	// Path of the resource, without the server.
	Path string
	Body string
}

// Is reports whether the request is of a method on a path that ends so.
func (r Request) Is(method, suffix string) bool {
	return r.Method == method && strings.HasSuffix(r.Path, suffix)
}

// Verdict is what happens to a request.
type Verdict int

const (
	// Pass sends it on.
	Pass Verdict = iota
	// Refuse answers that the service is unavailable.
	Refuse
	// KillBefore kills the runner, and the request is lost with it.
	KillBefore
	// KillAfter sends it on, and kills the runner before the answer.
	KillAfter
)

// Toll stands between a runner and the API server and judges each write. It makes
// a crash happen at a chosen write, each time.
type Toll struct {
	runner Runner
	relay  *relay
	next   http.Handler
	left   bool

	mu     sync.Mutex
	judge  func(Request) Verdict
	killed chan struct{}
}

// NewToll restarts a runner so that it reaches the API server through the toll.
// Leave ends that.
func (c *Cluster) NewToll(ctx context.Context, runner Runner) (*Toll, error) {
	t := &Toll{runner: runner, judge: func(Request) Verdict { return Pass }, killed: make(chan struct{})}
	var err error
	t.relay, err = c.newRelay(ctx, func(apiServer http.Handler) http.Handler {
		t.next = apiServer
		return t
	})
	if err != nil {
		return nil, err
	}
	if err := t.restart(ctx, t.relay.Endpoint); err != nil {
		t.relay.close()
		return nil, err
	}
	return t, nil
}

func (t *Toll) restart(ctx context.Context, at Endpoint) error {
	if err := t.runner.Stop(); err != nil {
		return err
	}
	return t.runner.Start(ctx, at)
}

// Judge sets what happens to the writes from now on.
func (t *Toll) Judge(judge func(Request) Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judge = judge
}

// Killed is closed once the runner was killed.
func (t *Toll) Killed() <-chan struct{} { return t.killed }

// Leave starts the runner without the toll, whether it runs or not. A second call
// does nothing.
func (t *Toll) Leave(ctx context.Context) error {
	if t.left {
		return nil
	}
	t.left = true
	err := t.restart(ctx, Endpoint{})
	t.relay.close()
	return err
}

// ServeHTTP judges a write and passes everything else.
func (t *Toll) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		t.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// One at a time, so that nothing follows the write at which the runner dies.
	t.mu.Lock()
	defer t.mu.Unlock()
	verdict := t.judge(Request{Method: r.Method, Path: r.URL.Path, Body: string(body)})
	switch verdict {
	case Pass:
		t.next.ServeHTTP(w, r)
	case Refuse:
		http.Error(w, "refused by the toll", http.StatusServiceUnavailable)
	case KillBefore:
		t.kill()
	case KillAfter:
		lost := &discarded{header: http.Header{}}
		t.next.ServeHTTP(lost, r)
		t.kill()
		if lost.code >= 300 {
			fmt.Fprintf(os.Stderr, "toll: the write at which the runner was killed was answered %d\n", lost.code)
		}
	}
}

func (t *Toll) kill() {
	if err := t.runner.Kill(); err != nil {
		fmt.Fprintln(os.Stderr, "toll:", err)
	}
	t.judge = func(Request) Verdict { return Refuse }
	close(t.killed)
}

// discarded is an answer that nobody gets.
type discarded struct {
	header http.Header
	code   int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) WriteHeader(code int)        { d.code = code }
