package applier

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"rtj.dev/rtj/hooks/contract"
)

// Hooks decide. They are called concurrently for different parents, never for
// the same one, with a context that ends at the timeout of the hook. They must
// not modify a request.
//
// An error means that nothing is known about what should be: nothing is applied,
// and the parent is tried again after a back-off. An error that has a method
// RetryAfter() time.Duration, found by errors.As, says itself when.
type Hooks interface {
	// Sync says which children and status a parent should have.
	Sync(ctx context.Context, request *contract.SyncRequest) (*contract.SyncResponse, error)
	// Finalize does so while the parent is being deleted, or no longer selected.
	// Finalized in its answer lets the parent go.
	Finalize(ctx context.Context, request *contract.SyncRequest) (*contract.SyncResponse, error)
	// Customize says which other objects Sync and Finalize are to see. It is asked
	// once for each generation of the parent.
	Customize(ctx context.Context, request *contract.CustomizeRequest) (*contract.CustomizeResponse, error)
}

// RetryAfter is an error that says when to try again. Delays below a second
// count as a second.
type RetryAfter struct {
	Delay time.Duration
	Err   error
}

func (e *RetryAfter) Error() string { return e.Err.Error() }

// Unwrap returns the error without the delay.
func (e *RetryAfter) Unwrap() error { return e.Err }

// call runs one hook under its timeout and turns a panic into an error, so that
// a fault met with one parent does not stop the others.
func call[Request, Response any](ctx context.Context, name string, hook *Hook, f func(context.Context, *Request) (*Response, error), request *Request) (response *Response, err error) {
	ctx, cancel := context.WithTimeout(ctx, hook.timeout())
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			response, err = nil, fmt.Errorf("%s hook: panic: %v\n%s", name, p, debug.Stack())
		}
	}()
	response, err = f(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s hook: %w", name, err)
	}
	if response == nil {
		return nil, fmt.Errorf("%s hook: no response", name)
	}
	return response, nil
}
