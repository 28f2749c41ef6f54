package applier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/metacontroller/applier/plan"
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

func (a *Applier) enqueue(parent *plan.Object) { a.Enqueue(parent.GetNamespace(), parent.GetName()) }

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
	if wait := time.Until(state.NotBefore); wait > 0 {
		a.alarms.set(key, wait)
		return
	}
	if state.Quarantined() {
		select {
		case a.quarantine <- struct{}{}:
			defer func() { <-a.quarantine }()
		default:
			a.alarms.set(key, spread(plan.FailurePause))
			return
		}
	}
	started := time.Now()
	a.alarms.cancel(key) // whatever it was set for is looked at now
	state.Start(started)
	faults, unfinished := a.syncRecovering(ctx, key, state)
	if ctx.Err() != nil {
		return
	}
	if !state.ResyncAt.IsZero() {
		defer func() { a.alarms.set(key, time.Until(state.ResyncAt)) }()
	}
	logger := a.logger.With("namespace", key.Namespace, "name", key.Name)
	again := state.After(faults, unfinished, started, time.Now(), spread)
	a.metrics.synced(string(again.Result), started)
	if again.AtOnce {
		a.queue.Add(key)
	} else if again.After > 0 {
		a.alarms.set(key, again.After)
	}
	err := errors.Join(faults...)
	switch again.Result {
	case plan.Unfinished:
		logger.Debug("the rest is written in the next turn", "error", err)
	case plan.Late:
		logger.Debug("sync put off", "reason", err, "retryIn", again.After)
	case plan.Lost:
		logger.Debug("sync lost a race", "error", err, "retryIn", again.After)
	case plan.Failed:
		a.reportFailure(key, faults)
		logger.Warn("sync failed", "error", err, "failures", state.Failures, "retryIn", again.After.Round(time.Millisecond))
	}
}

// spread makes a delay up to a fifth longer: see [plan.Spread].
func spread(delay time.Duration) time.Duration {
	return delay + time.Duration(rand.Float64()*float64(delay)/5)
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
