package plan

import (
	"errors"
	"time"
)

// LostRace is a write that came too late: the object is not what it was decided
// upon. It is no failure; the event that tells what happened brings a new
// decision.
type LostRace struct{ Err error }

func (e *LostRace) Error() string { return e.Err.Error() }

// Unwrap returns what the API server said.
func (e *LostRace) Unwrap() error { return e.Err }

// onlyLostRaces tells whether all that went wrong is that others were faster.
func onlyLostRaces(faults []error) bool {
	for _, err := range faults {
		var lost *LostRace
		if !errors.As(err, &lost) {
			return false
		}
	}
	return true
}

// NotYet is a sync that cannot be done yet.
type NotYet struct {
	Reason string
	// After is when to look again, if no event comes first.
	After time.Duration
}

func (e *NotYet) Error() string { return e.Reason }

// OwnershipConflict is a child that someone else has.
type OwnershipConflict struct{ text string }

func (e *OwnershipConflict) Error() string { return e.text }

// errOvertaken is a write that would be refused.
var errOvertaken = errors.New("has changed since it was observed")
