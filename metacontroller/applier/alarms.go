package applier

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// alarms put parents into the queue at a later time. A parent has at most one,
// the earliest that was asked for. Other than an entry of a delaying queue it can
// be taken back, so that nothing is kept of a parent that is gone.
type alarms struct {
	ring func(types.NamespacedName)

	mu       sync.Mutex
	byParent map[types.NamespacedName]*alarm
	closed   bool
}

type alarm struct {
	at    time.Time
	timer *time.Timer
}

func newAlarms(ring func(types.NamespacedName)) *alarms {
	return &alarms{ring: ring, byParent: map[types.NamespacedName]*alarm{}}
}

// set rings for a parent after a delay, or when it would have rung anyway, if
// that is earlier.
func (a *alarms) set(parent types.NamespacedName, delay time.Duration) {
	if delay <= 0 {
		a.ring(parent)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at := time.Now().Add(delay)
	earlier := a.byParent[parent]
	if a.closed || earlier != nil && !at.Before(earlier.at) {
		return
	}
	if earlier != nil {
		earlier.timer.Stop()
	}
	next := &alarm{at: at}
	next.timer = time.AfterFunc(delay, func() { a.due(parent, next) })
	a.byParent[parent] = next
}

func (a *alarms) due(parent types.NamespacedName, which *alarm) {
	a.mu.Lock()
	current := a.byParent[parent] == which
	if current {
		delete(a.byParent, parent)
	}
	a.mu.Unlock()
	if current {
		a.ring(parent)
	}
}

// cancel takes the alarm of a parent back.
func (a *alarms) cancel(parent types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if set := a.byParent[parent]; set != nil {
		set.timer.Stop()
		delete(a.byParent, parent)
	}
}

// close takes all alarms back and lets none be set any more.
func (a *alarms) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for parent, set := range a.byParent {
		set.timer.Stop()
		delete(a.byParent, parent)
	}
}

func (a *alarms) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byParent)
}
