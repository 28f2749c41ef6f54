package applier

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
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
func asObserved(object any) *observed {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	o, _ := object.(*observed)
	return o
}

// changed is told of every change in a cache: before is nil for an object that
// appeared, after for one that is gone.
func (a *Applier) changed(c *objects, before, after *observed) {
	if c.scope == a.parentScope() {
		a.parentChanged(before, after)
	}
	kind := a.childScopes[c.scope]
	for _, o := range []*observed{before, after} {
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

func (a *Applier) parentChanged(before, after *observed) {
	if before != nil && after != nil && a.ignoresStatusChanges() &&
		before.GetGeneration() == after.GetGeneration() &&
		!terminating(after) &&
		maps.Equal(before.GetLabels(), after.GetLabels()) &&
		maps.Equal(before.GetAnnotations(), after.GetAnnotations()) {
		return
	}
	if after == nil {
		after = before
	}
	if after != nil {
		a.enqueue(after)
	}
}

func (a *Applier) ignoresStatusChanges() bool {
	ignore := a.controller.Spec.ParentResource.IgnoreStatusChanges
	return ignore != nil && *ignore
}

// childChanged enqueues the parent that controls an object, or, if nothing does,
// the parents that may adopt it.
func (a *Applier) childChanged(o *observed) {
	if owner := controllerOf(o); owner != nil {
		if key, ok := a.ownedBy(owner, o.GetNamespace()); ok {
			a.queue.Add(key)
		}
		return
	}
	if a.controller.generatesSelector() {
		if uid := o.GetLabels()[uidLabel]; uid != "" {
			for _, parent := range a.parents.lookup(byUID, uid) {
				a.enqueue(parent)
			}
		}
		return
	}
	for _, term := range termsOfLabels(o.GetLabels()) {
		for _, parent := range a.parents.lookup(bySelector, a.orphanKey(o.GetNamespace(), term)) {
			if selector, err := a.selectorOf(parent); err == nil && selector.Matches(labels.Set(o.GetLabels())) {
				a.enqueue(parent)
			}
		}
	}
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}
