package applier

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"rtj.dev/rtj/hooks/contract"
)

// Hooks decide. They are called concurrently for different parents, never for
// the same one, with a context that ends at the timeout of the hook. They must
// not modify a request. Requests and answers are of version v2 of the contract;
// hooks that are reached otherwise convert.
//
// An error means that nothing is known about what should be: nothing is applied,
// and the parent is tried again after a back-off. An error that has a method
// RetryAfter() time.Duration, found by errors.As, says itself when; a [Failure]
// in it says what to count it as. Errors need not name the hook: that is added.
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

// Changing is implemented by hooks that notice when others decide in their place,
// such as a new release of a program. They call f then, from any goroutine; it does
// not block. Customize rules are asked for again and every parent is synced, also
// where nothing else happens.
type Changing interface {
	OnChange(f func())
}

// RetryAfter is an error that says when to try again. Delays below a second
// count as a second; with none, the ordinary back-off applies, and at least a
// second. Some jitter is added.
type RetryAfter struct {
	Delay time.Duration
	Err   error
}

func (e *RetryAfter) Error() string { return e.Err.Error() }

// RetryAfter returns the delay.
func (e *RetryAfter) RetryAfter() time.Duration { return e.Delay }

// Unwrap returns the error without the delay.
func (e *RetryAfter) Unwrap() error { return e.Err }

// Cause is what the failures of hooks are counted by.
type Cause string

const (
	// CauseConnection: the hook could not be reached, or broke off.
	CauseConnection Cause = "connection"
	// CauseTLS: one side does not accept the other's certificate, or no TLS is
	// spoken.
	CauseTLS Cause = "tls"
	// CauseCredentials: a Secret or ConfigMap that the controller names cannot be
	// used.
	CauseCredentials Cause = "credentials"
	// CauseTimeout: no complete answer in time.
	CauseTimeout Cause = "timeout"
	// CauseThrottled: the hook asks to be called later.
	CauseThrottled Cause = "throttled"
	// CauseStatus: the answer is an HTTP status other than 200.
	CauseStatus Cause = "status"
	// CauseTooLarge: the answer is larger than is accepted.
	CauseTooLarge Cause = "too-large"
	// CauseAnswer: the answer cannot be understood, or is refused.
	CauseAnswer Cause = "answer"
	// CausePanic: a hook in process panicked.
	CausePanic Cause = "panic"
	// CauseHook: the hook itself returned an error.
	CauseHook Cause = "hook"
)

// Failure is a failed call of a hook with its cause.
type Failure struct {
	Cause Cause
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error without the cause.
func (f *Failure) Unwrap() error { return f.Err }

func causeOf(err error) Cause {
	var failure *Failure
	var message *contract.Error
	switch {
	case errors.As(err, &failure):
		return failure.Cause
	case errors.As(err, &message):
		return CauseAnswer
	case errors.Is(err, context.DeadlineExceeded):
		return CauseTimeout
	default:
		return CauseHook
	}
}

// call runs one hook under its timeout and turns a panic into an error, so that
// a fault met with one parent does not stop the others.
func call[Request, Response any](ctx context.Context, name string, hook *Hook, f func(context.Context, *Request) (*Response, error), request *Request) (response *Response, err error) {
	ctx, cancel := context.WithTimeout(ctx, hook.Timeout())
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			response, err = nil, &Failure{CausePanic, fmt.Errorf("%s hook: panic: %v\n%s", name, p, debug.Stack())}
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
