package applier

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

const (
	// wideInterest is how many parents may be woken at once by one related object.
	wideInterest = 32
	// wideDelay gathers the changes of an object that more parents ask for, such as
	// a ClusterQueue whose status counts every admission, into one sync of each.
	wideDelay = 200 * time.Millisecond
)

// handler turns the changes in one cache into parents to be synced. It runs in
// the goroutine of the cache and only looks things up.
func (a *Applier) handler(o *objects) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(added any) { a.changed(o, nil, asObserved(added)) },
		UpdateFunc: func(was, is any) {
			before, after := asObserved(was), asObserved(is)
			if before != nil && after != nil && before.GetResourceVersion() == after.GetResourceVersion() {
				return
			}
			a.changed(o, before, after)
		},
		DeleteFunc: func(deleted any) { a.changed(o, asObserved(deleted), nil) },
	}
}

// asObserved returns the object of an event, or nil if the cache knows only that
// there was one.
func asObserved(object any) *plan.Object {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	o, _ := object.(*plan.Object)
	return o
}

// changed is told of every change in a cache: before is nil for an object that
// appeared, after for one that is gone.
func (a *Applier) changed(c *objects, before, after *plan.Object) {
	if c.scope == a.parentScope() {
		a.parentChanged(before, after)
	}
	kind := a.childScopes[c.scope]
	for _, o := range []*plan.Object{before, after} {
		if o == nil {
			continue
		}
		if kind != nil {
			a.childChanged(o)
		}
		parents := a.subscriptions.interested(c.scope, o)
		for _, parent := range parents {
			if len(parents) > wideInterest {
				a.alarms.set(parent, wideDelay)
			} else {
				a.queue.Add(parent)
			}
		}
	}
}

func (a *Applier) parentChanged(before, after *plan.Object) {
	if !a.plan.ParentChanged(before, after) {
		return
	}
	if after == nil {
		after = before
	}
	if after != nil {
		a.enqueue(after)
	}
}

// childChanged enqueues the parent that controls an object, or, if nothing does,
// the parents that may adopt it.
func (a *Applier) childChanged(o *plan.Object) {
	parent, ours, controlled := a.plan.ControllingParent(o)
	if ours {
		a.queue.Add(parent)
	}
	if controlled {
		return
	}
	if a.plan.GeneratesSelector {
		if uid := o.GetLabels()[plan.UIDLabel]; uid != "" {
			for _, parent := range a.parents.lookup(byUID, uid) {
				a.enqueue(parent)
			}
		}
		return
	}
	for _, term := range termsOfLabels(o.GetLabels()) {
		for _, parent := range a.parents.lookup(bySelector, a.orphanKey(o.GetNamespace(), term)) {
			if selector, err := a.plan.SelectorOf(parent); err == nil && selector.Matches(labels.Set(o.GetLabels())) {
				a.enqueue(parent)
			}
		}
	}
}
