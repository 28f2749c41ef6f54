package applier

import (
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Minute
	// failurePause is how soon after a failure an event may cause the next
	// attempt: at once would let a busy parent that always fails take a worker
	// for itself, only after the back-off would leave one that was repaired
	// waiting for minutes.
	failurePause = time.Second
	// conflictRetry is when a lost write is tried again if no event comes first.
	conflictRetry = time.Second
	// quarantineAfter so many failures in a row a parent is quarantined, and after
	// the first one if it took longer than slowFailure, such as a hook that hangs.
	quarantineAfter = 3
	slowFailure     = 500 * time.Millisecond
)

// backoff returns the delay after so many failures in a row, the first being 1:
// doubled each time, and spread by a fifth, so that parents which failed together
// do not return together.
func backoff(failures int) time.Duration {
	delay := maxBackoff
	if shift := failures - 1; shift < 20 {
		delay = min(firstBackoff<<max(shift, 0), maxBackoff)
	}
	return spread(delay)
}

func spread(delay time.Duration) time.Duration {
	return delay + time.Duration(rand.Float64()*float64(delay)/5)
}

// delayAfter returns when to try again after so many failures in a row, of which
// err is the last, and for how long not even an event causes an attempt.
func delayAfter(err error, failures int) (delay, pause time.Duration) {
	asked, ok := retryAfter(err)
	switch {
	case !ok:
		delay = backoff(failures)
		return delay, min(delay, failurePause)
	case asked > 0:
		delay = spread(max(asked, time.Second))
	default:
		// Whoever is overloaded and does not say for how long gets what others get,
		// but is never asked again at once.
		delay = max(backoff(failures), spread(time.Second))
	}
	return delay, delay
}

// retryAfter returns the delay that an error asks for itself: a hook, or an API
// server that is overloaded. Zero means that it does not say how long.
func retryAfter(err error) (time.Duration, bool) {
	var asked interface{ RetryAfter() time.Duration }
	var hook *RetryAfter
	switch {
	case errors.As(err, &hook):
		return hook.Delay, true
	case errors.As(err, &asked):
		return asked.RetryAfter(), true
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return time.Duration(seconds) * time.Second, true
	}
	return 0, false
}
