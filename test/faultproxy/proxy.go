package faultproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// How long things last at most.
const (
	maxLatency   = 400 * time.Millisecond
	maxLag       = 2 * time.Second
	maxStaleness = 8 * time.Second
	// A watch that is to end does so after this time at least and at most.
	minWatch = 2 * time.Second
	maxWatch = 20 * time.Second
	// retryAfter is what a 429 asks for, in seconds.
	retryAfter = 1
)

// Options of [New].
type Options struct {
	// APIServer is what requests are passed on to.
	APIServer http.Handler
	// Seed decides what happens; see the package comment.
	Seed uint64
	// Log gets a line for each fault; nil: nobody does.
	Log io.Writer
}

// Proxy is an [http.Handler]. It disturbs nothing until [Proxy.Set].
type Proxy struct {
	options Options
	fates   fates
	history history
	// minWatch and maxWatch are as the constants, but in tests.
	minWatch, maxWatch time.Duration

	mu     sync.Mutex
	rates  Rates
	counts map[Fault]int
	passed int
}

// New returns a proxy.
func New(o Options) *Proxy {
	if o.Log == nil {
		o.Log = io.Discard
	}
	return &Proxy{options: o, fates: fates{seed: o.Seed}, counts: map[Fault]int{}, minWatch: minWatch, maxWatch: maxWatch}
}

// Set changes the rates for requests from now on; nil: nothing happens. Watches
// that are open keep what was drawn for them.
func (p *Proxy) Set(rates Rates) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rates = rates.clone()
}

// Counts says how often each fault has happened.
func (p *Proxy) Counts() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := map[Fault]int{}
	for f, n := range p.counts {
		counts[f] = n
	}
	return counts
}

// String says what has happened, in one line.
func (p *Proxy) String() string {
	counts := p.Counts()
	p.mu.Lock()
	line := fmt.Sprintf("seed %d, %d requests", p.options.Seed, p.passed)
	p.mu.Unlock()
	for _, f := range sorted(counts) {
		line += fmt.Sprintf(", %s %d", f, counts[f])
	}
	return line
}

type connKey struct{}

// ConnContext is for [http.Server]: without it no connection is reset.
func (p *Proxy) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// ServeHTTP passes a request on, or does not.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := describe(r)
	p.mu.Lock()
	rates := p.rates
	p.passed++
	p.mu.Unlock()
	if rates == nil {
		p.pass(w, r, d)
		return
	}
	chance := p.fates.of(d.key)
	happen := func(f Fault) { p.note(f, d) }
	if chance.Float64() < rates[Latency] {
		happen(Latency)
		if !pause(r.Context(), upTo(chance, maxLatency)) {
			return
		}
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" && chance.Float64() < rates[NoWatchList] {
		happen(NoWatchList)
		refuse(w, forbidden())
		return
	}
	fault := rates.draw(d.faults(r.Method), chance.Float64())
	if fault == LostAnswer && d.watch || fault == Duplicate && !repeatable(r) {
		fault = ""
	}
	if fault != "" {
		happen(fault)
	}
	switch fault {
	case Conflict, TooManyRequests, TooManyRequestsBare, InternalError, Unavailable:
		refuse(w, refusal(fault, d))
	case Reset:
		reset(r)
	case LostAnswer:
		p.pass(&discarded{header: http.Header{}}, r, d)
		panic(http.ErrAbortHandler)
	case ErrorAfter:
		p.pass(&discarded{header: http.Header{}}, r, d)
		refuse(w, refusal(InternalError, d))
	case Duplicate:
		p.twice(w, r, d)
	default:
		switch {
		case d.watch:
			p.watch(w, r, rates, chance, happen)
		case d.list() && r.URL.Query().Get("resourceVersion") == "0" && chance.Float64() < rates[StaleList]:
			if p.stale(r, upTo(chance, maxStaleness)) {
				happen(StaleList)
			}
			p.pass(w, r, d)
		default:
			p.pass(w, r, d)
		}
	}
}

// pass passes a request on, and takes note of the versions that writes return.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, d request) {
	if !d.read {
		w = &noting{ResponseWriter: w, history: &p.history}
	}
	p.options.APIServer.ServeHTTP(w, r)
}

func (p *Proxy) twice(w http.ResponseWriter, r *http.Request, d request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	again := r.Clone(r.Context())
	r.Body, again.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
	p.pass(&discarded{header: http.Header{}}, r, d)
	p.pass(w, again, d)
}

// repeatable reports whether a request means the same object the second time: a
// creation under a generated name does not.
func repeatable(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return true
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && !bytes.Contains(body, []byte(`"generateName"`))
}

func (p *Proxy) note(f Fault, d request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[f]++
	fmt.Fprintf(p.options.Log, "%s %s %s\n", time.Now().Format("15:04:05.000"), f, d.key)
}

// refusal is the answer of an API server that does not carry out a request.
func refusal(f Fault, d request) *metav1.Status {
	resource := schema.GroupResource{Resource: d.resource}
	var err *apierrors.StatusError
	switch f {
	case Conflict:
		err = apierrors.NewConflict(resource, d.name, errors.New("the fault proxy says so"))
	case TooManyRequests:
		err = apierrors.NewTooManyRequests("by the fault proxy", retryAfter)
	case TooManyRequestsBare:
		err = apierrors.NewTooManyRequestsError("by the fault proxy")
	case Unavailable:
		err = apierrors.NewServiceUnavailable("by the fault proxy")
	default:
		err = apierrors.NewInternalError(errors.New("of the fault proxy"))
	}
	return &err.ErrStatus
}

// forbidden is what an API server answers that knows no initial events.
func forbidden() *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
	}
}

func refuse(w http.ResponseWriter, s *metav1.Status) {
	s.APIVersion, s.Kind = "v1", "Status"
	body, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is made here
	}
	w.Header().Set("Content-Type", "application/json")
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(body)
}

// reset breaks the client's connection.
func reset(r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if plain, ok := conn.(*net.TCPConn); ok {
		// Closed at once, with what was not yet sent.
		_ = plain.SetLinger(0)
	}
	if conn != nil {
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// pause reports whether the time passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func upTo(chance *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(chance.Float64() * float64(most))
}

// discarded is an answer that nobody gets.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) WriteHeader(int)             {}
