package applier

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// parentState is what is remembered of a parent between syncs. Only the worker
// that syncs the parent uses it, and the queue gives a parent to one worker at a
// time; its records are also used by the writes of one sync. It goes when the
// parent goes; losing it costs requests, never correctness.
type parentState struct {
	uid types.UID
	// rules of the customize hook, and what they answer.
	rules    []*relatedRule
	rulesFor question
	*records
	// failures in a row, and when the next attempt may be.
	failures  int
	notBefore time.Time
	// slow says that the last failure took long.
	slow bool
	// resyncAt is when a hook asked to be called again, if it did.
	resyncAt time.Time
}

func newParentState() *parentState { return &parentState{records: newRecords()} }

// forUID starts afresh when a new parent has the name of an old one.
func (s *parentState) forUID(uid types.UID) {
	if s.uid != uid {
		*s = parentState{uid: uid, records: newRecords(), failures: s.failures, notBefore: s.notBefore, slow: s.slow}
	}
}

// resyncAfter notes that a hook asked to be called again. The earliest time wins.
func (s *parentState) resyncAfter(seconds float64) {
	if seconds <= 0 {
		return
	}
	at := time.Now().Add(time.Duration(math.Min(seconds*float64(time.Second), float64(365*24*time.Hour))))
	if s.resyncAt.IsZero() || at.Before(s.resyncAt) {
		s.resyncAt = at
	}
}

// quarantined tells whether the parent may only use the workers that are set
// aside for those that fail: it has failed again and again, or took long to.
func (s *parentState) quarantined() bool {
	return s.failures >= quarantineAfter || s.failures > 0 && s.slow
}

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

// lostRace is a write that came too late: the object is not what it was decided
// upon. It is no failure; the event that tells what happened brings a new
// decision.
type lostRace struct{ err error }

func (e *lostRace) Error() string { return e.err.Error() }
func (e *lostRace) Unwrap() error { return e.err }

// onlyLostRaces tells whether all that went wrong is that others were faster.
func onlyLostRaces(faults []error) bool {
	for _, err := range faults {
		var lost *lostRace
		if !errors.As(err, &lost) {
			return false
		}
	}
	return true
}

// notYet is a sync that cannot be done yet.
type notYet struct {
	reason string
	// after is when to look again, if no event comes first.
	after time.Duration
}

func (e *notYet) Error() string { return e.reason }
