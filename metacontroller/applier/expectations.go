package applier

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// expectationLifetime bounds how long a sync waits for the caches to show its own
// earlier writes. A watch that is that late is broken, and being wrong costs a
// conflict.
const expectationLifetime = 5 * time.Second

// expectation is a write that a cache has not shown yet.
type expectation struct {
	cache           *objects
	namespace, name string
	// resourceVersion that the write returned; empty for a deletion.
	resourceVersion string
	// uid of the object that was deleted.
	uid      types.UID
	deadline time.Time
}

func (e expectation) fulfilled() bool {
	if e.resourceVersion != "" {
		return e.cache.hasSeen(e.namespace, e.name, e.resourceVersion)
	}
	o := e.cache.get(e.namespace, e.name)
	return o == nil || o.GetUID() != e.uid || terminating(o)
}

// outstanding drops the expectations that are fulfilled or too old, and returns
// how long to wait for the rest at most, or 0 if there is none.
func (r *records) outstanding(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.expectations[:0]
	var wait time.Duration
	for _, e := range r.expectations {
		left := e.deadline.Sub(now)
		if left <= 0 || e.fulfilled() {
			continue
		}
		kept = append(kept, e)
		wait = max(wait, left)
	}
	clear(r.expectations[len(kept):])
	r.expectations = kept
	return wait
}

// wrote notes a write that returned object.
func (r *records) wrote(cache *objects, object *observed) {
	r.expect(expectation{cache: cache, resourceVersion: object.GetResourceVersion()}, object)
}

// deleted notes a deletion of object.
func (r *records) deleted(cache *objects, object *observed) {
	r.expect(expectation{cache: cache, uid: object.GetUID()}, object)
}

func (r *records) expect(e expectation, object *observed) {
	e.namespace, e.name = object.GetNamespace(), object.GetName()
	e.deadline = time.Now().Add(expectationLifetime)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expectations = append(r.expectations, e)
}
