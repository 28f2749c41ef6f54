package applier

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func (a *Applier) work(ctx context.Context) {
	for {
		key, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			a.process(ctx, key)
		}
		a.queue.Done(key)
	}
}

func (a *Applier) resync(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.enqueueAll()
		}
	}
}

func (a *Applier) enqueueAll() {
	for _, parent := range a.parents.all() {
		a.enqueue(parent)
	}
}

func (a *Applier) enqueue(parent *observed) { a.Enqueue(parent.GetNamespace(), parent.GetName()) }

// changePause bounds how often all parents are synced because the hooks have
// changed: while old and new ones answer in turn they seem to change all the time.
const changePause = 5 * time.Second

// watchHooks syncs every parent again when other hooks decide than before.
func (a *Applier) watchHooks(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		a.logger.Info("the hooks have changed; every parent is synced again")
		a.identity.Add(1)
		a.enqueueAll()
		select {
		case <-ctx.Done():
			return
		case <-time.After(changePause):
		}
	}
}

// process syncs one parent and decides when it comes again.
func (a *Applier) process(ctx context.Context, key types.NamespacedName) {
	if a.parents.get(key.Namespace, key.Name) == nil {
		a.forget(key)
		return
	}
	state := a.state(key)
	if wait := time.Until(state.notBefore); wait > 0 {
		a.alarms.set(key, wait)
		return
	}
	if state.quarantined() {
		select {
		case a.quarantine <- struct{}{}:
			defer func() { <-a.quarantine }()
		default:
			a.alarms.set(key, spread(failurePause))
			return
		}
	}
	started := time.Now()
	a.alarms.cancel(key) // whatever it was set for is looked at now
	if !started.Before(state.resyncAt) {
		state.resyncAt = time.Time{}
	}
	faults, unfinished := a.syncRecovering(ctx, key, state)
	if ctx.Err() != nil {
		return
	}
	if !state.resyncAt.IsZero() {
		defer func() { a.alarms.set(key, time.Until(state.resyncAt)) }()
	}
	logger := a.logger.With("namespace", key.Namespace, "name", key.Name)
	var wait *notYet
	switch {
	case unfinished:
		a.queue.Add(key)
		a.metrics.synced("unfinished", started)
		logger.Debug("the rest is written in the next turn", "error", errors.Join(faults...))
	case len(faults) == 0:
		state.failures = 0
		a.metrics.synced("success", started)
	case errors.As(faults[0], &wait):
		a.alarms.set(key, wait.after)
		a.metrics.synced("not-yet", started)
		logger.Debug("sync put off", "reason", wait.reason, "retryIn", wait.after)
	case onlyLostRaces(faults):
		delay := spread(conflictRetry)
		a.alarms.set(key, delay)
		a.metrics.synced("lost-race", started)
		logger.Debug("sync lost a race", "error", errors.Join(faults...), "retryIn", delay)
	default:
		err := errors.Join(faults...)
		state.failures++
		state.slow = time.Since(started) > slowFailure
		delay, pause := delayAfter(err, state.failures)
		state.notBefore = time.Now().Add(pause)
		a.alarms.set(key, delay)
		a.metrics.synced("error", started)
		a.reportFailure(key, faults)
		logger.Warn("sync failed", "error", err, "failures", state.failures, "retryIn", delay.Round(time.Millisecond))
	}
}

// syncRecovering turns a panic into a failure of this parent.
func (a *Applier) syncRecovering(ctx context.Context, key types.NamespacedName, state *parentState) (faults []error, unfinished bool) {
	defer func() {
		if p := recover(); p != nil {
			faults, unfinished = []error{fmt.Errorf("panic: %v\n%s", p, debug.Stack())}, false
		}
	}()
	return a.sync(ctx, key, state)
}
