package store

import (
	"slices"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// What a store that cannot be used answers. A store has one of these at a time.
var (
	// Outage: nobody answers.
	Outage = &catalog.Error{Kind: checkpoint.Unreachable, Message: "bucket checkpoints: no answer in time"}
	// Denied: the credentials are refused.
	Denied = &catalog.Error{Kind: checkpoint.AccessDenied, Message: "bucket checkpoints: AccessDenied (HTTP 403): Access Denied"}
	// Throttled: 503 SlowDown for longer than a client tries.
	Throttled = &catalog.Error{Kind: checkpoint.Unreachable, Message: "bucket checkpoints: SlowDown (HTTP 503): Please reduce your request rate."}
	// NoBucket: the bucket does not exist.
	NoBucket = &catalog.Error{Kind: checkpoint.BucketNotFound, Message: "bucket checkpoints: the bucket does not exist"}
)

// throttledFor is how long SlowDown lasts.
const throttledFor = 30 * time.Second

// Down makes the store answer every request with the failure, until Up.
func (s *Store) Down(failure *catalog.Error) {
	s.failure, s.failureEnds = failure, time.Time{}
	if failure == Throttled {
		s.failureEnds = s.env.Now().Add(throttledFor)
	}
}

// Up makes the store answer.
func (s *Store) Up() { s.failure, s.failureEnds = nil, time.Time{} }

// Failure is why the store cannot be used now, of type [*catalog.Error]; nil when it
// can.
func (s *Store) Failure() error {
	if s.failure == nil || !s.failureEnds.IsZero() && !s.env.Now().Before(s.failureEnds) {
		return nil
	}
	return s.failure
}

// Refuses reports whether the store answers, and refuses: trying again is no use.
func (s *Store) Refuses() bool {
	return s.Failure() != nil && s.failure.Kind != checkpoint.Unreachable
}

// Contradict makes the store say of an object that it does not exist, and list it,
// until Agree.
func (s *Store) Contradict(key string) {
	if s.Has(key) && !slices.Contains(s.unreadable, key) {
		s.unreadable = append(slices.Clip(s.unreadable), key)
		s.revision++
	}
}

// Agree ends all contradictions.
func (s *Store) Agree() {
	if s.unreadable != nil {
		s.unreadable = nil
		s.revision++
	}
}

// lateObject is an object that a listing does not show yet.
type lateObject struct {
	key string
	// before is what it shows; nil for nothing.
	before *Object
	until  time.Time
}

// SlowListings has listings show what was written at most that much later. Reads
// follow writes all the same. 0 ends it, also for what is late.
func (s *Store) SlowListings(bound time.Duration) {
	s.lateness = bound
	if bound == 0 && s.late != nil {
		s.late = nil
		s.revision++
	}
}

func (s *Store) hide(key string, before *Object) {
	now := s.env.Now()
	// Forget those whose time is over, or the list grows for ever.
	fresh := make([]lateObject, 0, len(s.late)+1)
	for _, l := range s.late {
		switch {
		case !now.Before(l.until):
		case l.key == key:
			before = l.before
		default:
			fresh = append(fresh, l)
		}
	}
	s.late = append(fresh, lateObject{key: key, before: before, until: now.Add(s.lateness)})
}

// Show has listings show an object.
func (s *Store) Show(key string) {
	s.forgetLate(key)
	s.revision++
}

func (s *Store) forgetLate(key string) {
	if at := s.lateAt(key); at >= 0 {
		s.late = slices.Concat(s.late[:at], s.late[at+1:])
	}
}

func (s *Store) lateAt(key string) int {
	return slices.IndexFunc(s.late, func(l lateObject) bool { return l.key == key })
}

// listed is what a listing shows of an object; nil for nothing.
func (s *Store) listed(o *Object) *Object {
	if at := s.lateAt(o.Key); at >= 0 && s.env.Now().Before(s.late[at].until) {
		return s.late[at].before
	}
	return o
}
