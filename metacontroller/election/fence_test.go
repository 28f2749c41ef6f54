package election

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// clock is a time that the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fencedServer is a server, a client behind a fence of ten seconds, and the
// requests that came with their whole bodies.
type fencedServer struct {
	*Fence
	*clock
	client *http.Client
	url    string

	mu   sync.Mutex
	came []string
}

func newFencedServer(t *testing.T, handle http.HandlerFunc) *fencedServer {
	t.Helper()
	s := &fencedServer{Fence: NewFence(10 * time.Second), clock: &clock{now: time.Unix(1_000_000, 0)}}
	s.Fence.now = s.clock.read
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.came = append(s.came, r.Method+" "+string(body))
		s.mu.Unlock()
		if handle != nil {
			handle(w, r)
		}
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s.client, s.url = &http.Client{Transport: s.Wrap(transport)}, server.URL
	return s
}

func (s *fencedServer) send(t *testing.T, method string, body io.Reader) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

func (s *fencedServer) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.came, ", ")
}

// Writes pass from a renewal of the lease until the validity is over, and then
// never again.
func TestFenceFollowsTheLease(t *testing.T) {
	s := newFencedServer(t, nil)
	write := func() error { return s.send(t, http.MethodPatch, strings.NewReader("p")) }
	refused := func(when string) {
		t.Helper()
		if err := write(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: want %v, got %v", when, ErrClosed, err)
		}
	}
	passes := func(when string) {
		t.Helper()
		if err := write(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("before the lease is held")
	if err := s.send(t, http.MethodGet, nil); err != nil {
		t.Errorf("a read without the lease: %v", err)
	}
	s.Renewed(s.read())
	passes("when it is held")
	s.advance(9 * time.Second)
	passes("shortly before the end")
	s.Renewed(s.read())
	s.advance(9 * time.Second)
	passes("after a renewal")
	s.Close()
	refused("when it was given back")
	s.Renewed(s.read())
	passes("when it is held again")
	s.advance(10 * time.Second)
	refused("at the end")
	select {
	case <-s.Lost():
	default:
		t.Error("the loss is not told")
	}
	s.Renewed(s.read())
	refused("after the end, in spite of a renewal")
	if want := "GET , PATCH p, PATCH p, PATCH p, PATCH p"; s.requests() != want {
		t.Errorf("came: %s\nwant: %s", s.requests(), want)
	}
}

// The validity counts from when the renewal was sent, not from when it was
// answered.
func TestFenceCountsFromTheRequest(t *testing.T) {
	s := newFencedServer(t, nil)
	sent := s.read()
	s.advance(10 * time.Second)
	s.Renewed(sent)
	if err := s.send(t, http.MethodPost, strings.NewReader("p")); !errors.Is(err, ErrClosed) {
		t.Errorf("want %v, got %v", ErrClosed, err)
	}
	select {
	case <-s.Lost():
	default:
		t.Error("a lease that was renewed too late is not lost")
	}
}

// A renewal that comes after the validity is over does not undo that, even if
// nothing was sent in between.
func TestFenceIsNotReopenedByALateRenewal(t *testing.T) {
	s := newFencedServer(t, nil)
	s.Renewed(s.read())
	s.advance(time.Minute)
	s.Renewed(s.read())
	if err := s.send(t, http.MethodDelete, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("want %v, got %v", ErrClosed, err)
	}
}

func TestFenceRevoked(t *testing.T) {
	s := newFencedServer(t, nil)
	s.Revoke()
	s.Renewed(s.read())
	if err := s.send(t, http.MethodPut, strings.NewReader("p")); err != nil {
		t.Errorf("a lease that was someone else's before it was ours: %v", err)
	}
	s.Revoke()
	if err := s.send(t, http.MethodPut, strings.NewReader("p")); !errors.Is(err, ErrClosed) {
		t.Errorf("want %v, got %v", ErrClosed, err)
	}
}

// A process that is stopped after it was let through, and goes on after the lease
// is over, sends no body, so nothing is carried out.
func TestFenceIsAskedAgainWhenTheBodyIsSent(t *testing.T) {
	s := newFencedServer(t, nil)
	s.Renewed(s.read())
	late := &lateBody{before: func() { s.advance(time.Minute) }, text: strings.NewReader("pp")}
	if err := s.send(t, http.MethodPost, late); !errors.Is(err, ErrClosed) && !errors.Is(err, errUnanswered) {
		t.Errorf("got %v", err)
	}
	if s.requests() != "" {
		t.Errorf("came: %s", s.requests())
	}
}

// lateBody gives one byte, and the next one only after something happened.
type lateBody struct {
	before func()
	text   *strings.Reader
	once   bool
}

func (b *lateBody) Read(p []byte) (int, error) {
	if !b.once {
		b.once = true
		n, err := b.text.Read(p[:1])
		b.before()
		return n, err
	}
	return b.text.Read(p)
}

// A request that has no answer yet is cancelled when the fence closes.
func TestFenceCancelsWhatIsOnItsWay(t *testing.T) {
	arrived, cancelled := make(chan struct{}), make(chan struct{})
	s := newFencedServer(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(cancelled)
	})
	s.Renewed(s.read())
	ended := make(chan error, 1)
	go func() { ended <- s.send(t, http.MethodPost, strings.NewReader("p")) }()
	<-arrived
	s.Revoke()
	if err := <-ended; !errors.Is(err, errUnanswered) {
		t.Errorf("got %v", err)
	}
	<-cancelled
}

// The fence closes by itself when nobody asks it, by the real clock.
func TestFenceClosesByItself(t *testing.T) {
	f := NewFence(20 * time.Millisecond)
	f.Renewed(time.Now())
	<-f.Lost()
}

// A machine that sleeps stops the monotonic clock; a clock that is set back does
// not lengthen the lease.
func TestElapsed(t *testing.T) {
	from := time.Now()
	if got := elapsed(from, from.Add(time.Second)); got != time.Second {
		t.Errorf("both clocks: %s", got)
	}
	slept := from.Round(0).Add(time.Hour)
	if got := elapsed(from, slept); got != time.Hour {
		t.Errorf("a machine that slept: %s", got)
	}
}
