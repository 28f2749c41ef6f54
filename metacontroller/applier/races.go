package applier

import (
	"errors"
	"time"
)

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
