package applier

import (
	"context"
	"strings"
	"sync"
	"time"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// Run watches and syncs until ctx ends, and returns when everything that it
// started has stopped. It returns an error, without having written anything, if
// the CompositeController does not fit what the API server offers. It can be
// called once.
func (a *Applier) Run(ctx context.Context) error {
	defer a.queue.ShutDown()
	if err := a.discover(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	a.mu.Lock()
	a.caches = newCaches(ctx, a.dynamic, a.metadata)
	a.mu.Unlock()
	defer func() {
		cancel()
		a.alarms.close()
		a.queue.ShutDown()
		workers.Wait()
		a.caches.wait()
	}()

	needed := make([]*objects, 0, 1+len(a.plan.Children))
	for _, kind := range a.plan.Children {
		a.childScopes[a.childScope(kind)] = kind
	}
	a.parents = a.caches.start(a.parentScope(), a.handler, a.indexers(a.parentScope()))
	needed = append(needed, a.parents)
	for s, kind := range a.childScopes {
		a.childCaches[kind] = a.caches.start(s, a.handler, a.indexers(s))
		needed = append(needed, a.childCaches[kind])
	}
	a.logger.Info("waiting for the caches", "parent", a.plan.Parent.Key(), "children", len(a.plan.Children))
	if err := a.waitFor(ctx, needed); err != nil {
		return nil // ctx ended
	}
	for range a.workers {
		workers.Go(func() { a.work(ctx) })
	}
	if period := a.controller.Spec.ResyncPeriodSeconds; period != nil {
		workers.Go(func() { a.resync(ctx, time.Duration(*period)*time.Second) })
	}
	workers.Go(func() { a.sweepCaches(ctx) })
	if hooks, ok := a.hooks.(Changing); ok {
		changed := make(chan struct{}, 1)
		hooks.OnChange(func() {
			select {
			case changed <- struct{}{}:
			default: // it is known already
			}
		})
		workers.Go(func() { a.watchHooks(ctx, changed) })
	}
	a.mu.Lock()
	a.ready = true
	a.mu.Unlock()
	a.logger.Info("syncing", "workers", a.workers, "parents", len(a.parents.all()))
	<-ctx.Done()
	a.mu.Lock()
	a.ready = false
	a.mu.Unlock()
	return nil
}

// sweepInterval is how often it is looked for watches that nobody needs. They end
// when that was so twice in a row.
const sweepInterval = time.Minute

// sweepCaches ends the watches for related objects that no parent asks for any more.
func (a *Applier) sweepCaches(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.caches.sweep(func(s scope) bool {
				return s == a.parentScope() || a.childScopes[s] != nil || a.subscriptions.has(s)
			})
		}
	}
}

// discover finds out about the resources that the controller names.
func (a *Applier) discover() (err error) {
	a.metadataOnly = a.controller.listed(MetadataOnlyAnnotation)
	a.childScopes, a.childCaches = map[scope]*plan.ChildKind{}, map[*plan.ChildKind]*objects{}
	a.plan, err = a.controller.Plan(a.kinds.find)
	return err
}

// parentScope is what is watched of the parents.
func (a *Applier) parentScope() scope { return scope{resource: a.plan.Parent.Resource} }

// childScope is what is watched of a kind of children.
func (a *Applier) childScope(kind *plan.ChildKind) scope {
	s := scope{resource: kind.Resource}
	if kind.MetadataOnly {
		s.metadataOf = kind.Kind.Kind
	}
	if a.plan.GeneratesSelector {
		s.labels = plan.UIDLabel
	}
	return s
}

// waitFor blocks until the caches are complete, and says from time to time which
// are not.
func (a *Applier) waitFor(ctx context.Context, needed []*objects) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	nextReport := time.Now().Add(5 * time.Second)
	for {
		var missing []string
		for _, o := range needed {
			if err := o.synced(); err != nil {
				missing = append(missing, err.Error())
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if time.Now().After(nextReport) {
			a.logger.Warn("still waiting for the caches", "missing", strings.Join(missing, "; "))
			nextReport = time.Now().Add(10 * time.Second)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
