package election

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// ErrClosed is why a request was not sent: this replica does not hold the lease,
// or cannot be sure of it.
var ErrClosed = errors.New("not sent: this replica does not hold the lease")

// errUnanswered is what became of a request that was on its way when the fence
// closed. It may have been carried out.
var errUnanswered = errors.New("the lease was lost before there was an answer")

// Fence lets requests that write pass only while no other replica can hold the
// lease. It is closed at first. The zero value is not usable; see [NewFence].
type Fence struct {
	validity time.Duration
	now      func() time.Time
	lost     chan struct{}

	mu sync.Mutex
	// renewed is when the request that renewed the lease last was sent; zero while
	// closed.
	renewed time.Time
	// expired says that the lease could have been taken once.
	expired bool
	timer   *time.Timer
	// term ends when the fence closes; requests on their way end with it.
	term context.Context
	end  context.CancelFunc
}

// NewFence returns a closed fence. Each renewal of the lease opens it for the
// validity, which must be shorter than the lease's duration.
func NewFence(validity time.Duration) *Fence {
	return &Fence{validity: validity, now: time.Now, lost: make(chan struct{})}
}

// Renewed tells that the lease was obtained or renewed by a request that was sent
// at a time read from this machine's clock. Other replicas count the lease's
// duration from a later moment.
func (f *Fence) Renewed(sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	if f.expired {
		return
	}
	left := f.validity - elapsed(sent, f.now())
	if left <= 0 {
		f.expire()
		return
	}
	if f.renewed.IsZero() {
		f.term, f.end = context.WithCancel(context.Background())
		f.timer = time.AfterFunc(left, f.check)
	} else {
		f.timer.Reset(left)
	}
	f.renewed = sent
}

// Close closes the fence before the lease is given back.
func (f *Fence) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
}

// Revoke closes an open fence for ever: the lease is seen to be someone else's.
func (f *Fence) Revoke() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.renewed.IsZero() {
		f.expire()
	}
}

// Lost is closed once the lease could have been taken by another replica, for
// ever.
func (f *Fence) Lost() <-chan struct{} { return f.lost }

// check expires a fence whose time is over.
func (f *Fence) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.look(); !f.renewed.IsZero() {
		f.timer.Reset(f.validity - elapsed(f.renewed, f.now()))
	}
}

// look finds out whether the time is over. A timer is no proof of the contrary:
// it may be late, by as long as the process was stopped.
func (f *Fence) look() {
	if !f.renewed.IsZero() && elapsed(f.renewed, f.now()) >= f.validity {
		f.expire()
	}
}

func (f *Fence) expire() {
	f.close()
	if !f.expired {
		f.expired = true
		close(f.lost)
	}
}

func (f *Fence) close() {
	if f.renewed.IsZero() {
		return
	}
	f.renewed = time.Time{}
	f.timer.Stop()
	f.end()
}

// elapsed is the time that has passed, by the monotonic clock or by the wall
// clock, whatever is more: the former does not count while a machine sleeps, the
// latter can be set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// pass returns the term within which a write may be made now.
func (f *Fence) pass() (context.Context, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	if f.renewed.IsZero() {
		return nil, ErrClosed
	}
	return f.term, nil
}

// Wrap puts the fence before a transport, as rest.Config.Wrap wants it. GET, HEAD
// and OPTIONS always pass.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return &fenced{fence: f, next: next}
}

type fenced struct {
	fence *Fence
	next  http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip sends a request that may be sent. The fence is asked once more when
// the body is read, which is after a connection was found or made: a request
// whose body does not come is not carried out. When the fence closes before there
// is an answer, the request is cancelled.
func (t *fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "":
		return t.next.RoundTrip(request)
	}
	term, err := t.fence.pass()
	if err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	answered := context.AfterFunc(term, func() { cancel(errUnanswered) })
	request = request.Clone(ctx)
	if body := request.Body; body != nil && body != http.NoBody {
		request.Body = &fencedBody{body, t.fence}
		// A transport that has to send once more begins here.
		if again := request.GetBody; again != nil {
			request.GetBody = func() (io.ReadCloser, error) {
				body, err := again()
				if err != nil {
					return nil, err
				}
				return &fencedBody{body, t.fence}, nil
			}
		}
	}
	response, err := t.next.RoundTrip(request)
	answered()
	if err != nil {
		if errors.Is(context.Cause(ctx), errUnanswered) {
			err = errUnanswered
		}
		cancel(nil)
		return nil, err
	}
	response.Body = &answerBody{response.Body, cancel}
	return response, nil
}

// fencedBody is the body of a request; it ends with an error when the fence is
// closed.
type fencedBody struct {
	io.ReadCloser
	fence *Fence
}

func (b *fencedBody) Read(p []byte) (int, error) {
	if _, err := b.fence.pass(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// answerBody frees the context of a request once its answer is read.
type answerBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *answerBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
