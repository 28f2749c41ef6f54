package plan

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Minute
	// FailurePause is how soon after a failure an event may cause the next
	// attempt: at once would let a busy parent that always fails take a worker
	// for itself, only after the back-off would leave one that was repaired
	// waiting for minutes.
	FailurePause = time.Second
	// conflictRetry is when a lost write is tried again if no event comes first.
	conflictRetry = time.Second
	// quarantineAfter so many failures in a row a parent is quarantined, and after
	// the first one if it took longer than slowFailure, such as a hook that hangs.
	quarantineAfter = 3
	slowFailure     = 500 * time.Millisecond
)

// Spread makes a delay up to a fifth longer, so that parents which failed together
// do not return together.
type Spread func(delay time.Duration) time.Duration

// Result is how a sync ended.
type Result string

const (
	// Success: all is as the hook wants it.
	Success Result = "success"
	// Unfinished: there is more to write than fits into one turn.
	Unfinished Result = "unfinished"
	// Late: the views are not complete.
	Late Result = "not-yet"
	// Lost: a write came too late.
	Lost Result = "lost-race"
	// Failed: the hook or the API server failed.
	Failed Result = "error"
)

// Again says when a parent is synced again, if no event comes first and the hook
// did not ask for an earlier time: see [Memory.ResyncAt].
type Again struct {
	Result Result
	// At once, when the parents that wait had their turn.
	AtOnce bool
	// After so long; 0: not by itself.
	After time.Duration
}

// Start begins a sync at a time: whatever was to be looked at by then is looked at
// now.
func (m *Memory) Start(now time.Time) {
	if !now.Before(m.ResyncAt) {
		m.ResyncAt = time.Time{}
	}
}

// After takes how a sync went that began and ended at these times, and says when
// the next is.
func (m *Memory) After(faults []error, unfinished bool, began, ended time.Time, spread Spread) Again {
	var wait *NotYet
	switch {
	case unfinished:
		return Again{Result: Unfinished, AtOnce: true}
	case len(faults) == 0:
		m.Failures = 0
		return Again{Result: Success}
	case errors.As(faults[0], &wait):
		return Again{Result: Late, After: wait.After}
	case onlyLostRaces(faults):
		return Again{Result: Lost, After: spread(conflictRetry)}
	default:
		m.Failures++
		m.Slow = ended.Sub(began) > slowFailure
		delay, pause := delayAfter(errors.Join(faults...), m.Failures, spread)
		m.NotBefore = ended.Add(pause)
		return Again{Result: Failed, After: delay}
	}
}

// Quarantined tells whether the parent may only use the workers that are set
// aside for those that fail: it has failed again and again, or took long to.
func (m *Memory) Quarantined() bool {
	return m.Failures >= quarantineAfter || m.Failures > 0 && m.Slow
}

// backoff returns the delay after so many failures in a row, the first being 1:
// doubled each time.
func backoff(failures int, spread Spread) time.Duration {
	delay := maxBackoff
	if shift := failures - 1; shift < 20 {
		delay = min(firstBackoff<<max(shift, 0), maxBackoff)
	}
	return spread(delay)
}

// delayAfter returns when to try again after so many failures in a row, of which
// err is the last, and for how long not even an event causes an attempt.
func delayAfter(err error, failures int, spread Spread) (delay, pause time.Duration) {
	asked, ok := retryAfter(err)
	switch {
	case !ok:
		delay = backoff(failures, spread)
		return delay, min(delay, FailurePause)
	case asked > 0:
		delay = spread(max(asked, time.Second))
	default:
		// Whoever is overloaded and does not say for how long gets what others get,
		// but is never asked again at once.
		delay = max(backoff(failures, spread), spread(time.Second))
	}
	return delay, delay
}

// retryAfter returns the delay that an error asks for itself: a hook, or an API
// server that is overloaded. Zero means that it does not say how long.
func retryAfter(err error) (time.Duration, bool) {
	var asked interface{ RetryAfter() time.Duration }
	if errors.As(err, &asked) {
		return asked.RetryAfter(), true
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return time.Duration(seconds) * time.Second, true
	}
	return 0, false
}
