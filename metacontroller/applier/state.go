package applier

import (
	"math"
	"time"

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
