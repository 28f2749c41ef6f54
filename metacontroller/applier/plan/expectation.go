package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// expectationLifetime bounds how long a sync waits for the views to show its own
// earlier writes. A watch that is that late is broken, and being wrong costs a
// conflict.
const expectationLifetime = 5 * time.Second

// View is what is known at one instant of one kind: parents (nil), or children.
type View interface {
	// Get returns an object by its place, or nil.
	Get(kind *ChildKind, namespace, name string) *Object
	// Revision is the newest resourceVersion that the view of the kind is known to
	// be as of.
	Revision(kind *ChildKind) string
}

// expectation is a write that a view has not shown yet.
type expectation struct {
	// kind of the child; nil: the parent.
	kind            *ChildKind
	namespace, name string
	// resourceVersion that the write returned; empty for a deletion.
	resourceVersion string
	// uid of the object that was deleted.
	uid      types.UID
	deadline time.Time
}

func (e expectation) fulfilled(v View) bool {
	if e.resourceVersion != "" {
		return seen(v, e.kind, e.namespace, e.name, e.resourceVersion)
	}
	o := v.Get(e.kind, e.namespace, e.name)
	return o == nil || o.GetUID() != e.uid || Terminating(o)
}

// seen tells whether the view shows the world as of a write or later. An object
// that was written and is gone since counts as seen.
func seen(v View, kind *ChildKind, namespace, name, resourceVersion string) bool {
	if o := v.Get(kind, namespace, name); o != nil && !Older(o.GetResourceVersion(), resourceVersion) {
		return true
	}
	return !Older(v.Revision(kind), resourceVersion)
}

// Older tells whether resource version a is known to come before b.
func Older(a, b string) bool {
	if a == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// Outstanding drops the expectations that are fulfilled or too old, and returns
// how long to wait for the rest at most, or 0 if there is none.
func (m *Memory) Outstanding(now time.Time, v View) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.expectations[:0]
	var wait time.Duration
	for _, e := range m.expectations {
		left := e.deadline.Sub(now)
		if left <= 0 || e.fulfilled(v) {
			continue
		}
		kept = append(kept, e)
		wait = max(wait, left)
	}
	clear(m.expectations[len(kept):])
	m.expectations = kept
	return wait
}

// wrote notes a write that returned object.
func (m *Memory) wrote(kind *ChildKind, object *Object, now time.Time) {
	m.expect(expectation{kind: kind, resourceVersion: object.GetResourceVersion()}, object, now)
}

// deleted notes a deletion of object.
func (m *Memory) deleted(kind *ChildKind, object *Object, now time.Time) {
	m.expect(expectation{kind: kind, uid: object.GetUID()}, object, now)
}

func (m *Memory) expect(e expectation, object *Object, now time.Time) {
	e.namespace, e.name = object.GetNamespace(), object.GetName()
	e.deadline = now.Add(expectationLifetime)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expectations = append(m.expectations, e)
}
