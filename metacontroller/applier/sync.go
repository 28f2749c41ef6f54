package applier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
)

// sync does one round for one parent: observe, ask the hook, make it so. It
// returns everything that went wrong; what can be done in spite of it is done.
func (a *Applier) sync(ctx context.Context, key types.NamespacedName, state *parentState) []error {
	parent := a.parents.get(key.Namespace, key.Name)
	if parent == nil {
		a.forget(key)
		return nil
	}
	if state.uid != parent.GetUID() {
		state.forUID(parent.GetUID())
		a.subscriptions.set(key, nil)
	}
	if wait := state.outstanding(time.Now()); wait > 0 {
		return []error{&notYet{reason: "the caches do not show the last writes yet", after: wait}}
	}
	selected := a.selector.Matches(labels.Set(parent.GetLabels()))
	if !selected && !slices.Contains(parent.GetFinalizers(), a.controller.Finalizer()) {
		a.forget(key)
		return nil
	}
	hooks := a.controller.Spec.Hooks
	finalizing := hooks.Finalize != nil && (terminating(parent) || !selected)
	if !finalizing && hooks.Sync == nil {
		return nil
	}
	var err error
	if hooks.Finalize == nil || !terminating(parent) && selected {
		if parent, err = a.setFinalizer(ctx, parent, state, hooks.Finalize != nil); err != nil {
			return []error{err}
		}
	}

	selector, err := a.selectorOf(parent)
	if err != nil {
		return []error{err}
	}
	claimed, err := a.claim(ctx, parent, selector, state)
	if err != nil {
		return []error{err}
	}
	related, err := a.relatedTo(ctx, key, parent, state)
	if err != nil {
		return []error{err}
	}
	response, err := a.ask(ctx, parent, claimed, related, finalizing)
	if err != nil {
		return []error{err}
	}
	desired, err := a.desiredChildren(parent, selector, response)
	if err != nil {
		return []error{a.refused(finalizing, err)}
	}
	status, err := desiredStatus(parent, response)
	if err != nil {
		return []error{a.refused(finalizing, err)}
	}
	a.resyncAfter(key, response.ResyncAfterSeconds)

	var faults []error
	managed := finalizing || !terminating(parent)
	if managed = managed && !heldByGarbageCollector(parent); managed {
		state.prune(func(uid types.UID) bool {
			for _, c := range claimed {
				if c.GetUID() == uid {
					return true
				}
			}
			return false
		})
		faults = a.manage(ctx, parent, state, claimed, desired)
	}
	if finalizing && response.Finalized && len(faults) == 0 {
		if managed && unwanted(claimed, desired) > 0 {
			// The parent stays until what was to be removed is seen to be gone. The
			// deletions bring events.
		} else {
			if parent, err = a.setFinalizer(ctx, parent, state, false); err != nil {
				return []error{err}
			}
			if terminating(parent) && len(parent.GetFinalizers()) == 0 {
				return nil
			}
		}
	}
	if err := a.writeStatus(ctx, parent, state, status); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// unwanted counts the children that are observed and not desired.
func unwanted(claimed map[childKey]child, desired []*desiredChild) int {
	n := len(claimed)
	for _, d := range desired {
		if _, ok := claimed[d.key()]; ok {
			n--
		}
	}
	return n
}

// ask calls the sync or the finalize hook.
func (a *Applier) ask(ctx context.Context, parent *observed, claimed map[childKey]child, related contract.ObjectMap, finalizing bool) (*contract.SyncResponse, error) {
	request := &contract.SyncRequest{
		Controller: a.controllerJSON,
		Parent:     parent.json(),
		Children:   contract.ObjectMap{},
		Related:    related,
		Finalizing: finalizing,
	}
	for _, kind := range a.children {
		request.Children[kind.key()] = map[string]json.RawMessage{}
	}
	for key, c := range claimed {
		request.Children.Set(key.kind, key.object, c.json())
	}
	name, hook, f := nameOfHook(finalizing), a.controller.Spec.Hooks.Sync, a.hooks.Sync
	if finalizing {
		hook, f = a.controller.Spec.Hooks.Finalize, a.hooks.Finalize
	}
	started := time.Now()
	response, err := call(ctx, name, hook, f, request)
	a.metrics.hook(name, started, err)
	return response, err
}

func nameOfHook(finalizing bool) string {
	if finalizing {
		return "finalize"
	}
	return "sync"
}

// refused counts an answer of which nothing is applied as a failure of the hook.
func (a *Applier) refused(finalizing bool, err error) error {
	a.metrics.hookFailed(nameOfHook(finalizing), CauseAnswer)
	return &Failure{CauseAnswer, fmt.Errorf("response refused: %w", err)}
}

// resyncAfter asks for one more sync. The queue keeps the earliest time.
func (a *Applier) resyncAfter(key types.NamespacedName, seconds float64) {
	if seconds > 0 {
		a.queue.AddAfter(key, time.Duration(math.Min(seconds*float64(time.Second), float64(365*24*time.Hour))))
	}
}

// process syncs one parent and decides when it comes again.
func (a *Applier) process(ctx context.Context, key types.NamespacedName) {
	state := a.state(key)
	if wait := time.Until(state.notBefore); wait > 0 {
		a.queue.AddAfter(key, wait)
		return
	}
	started := time.Now()
	faults := a.syncRecovering(ctx, key, state)
	if ctx.Err() != nil {
		return
	}
	logger := a.logger.With("namespace", key.Namespace, "name", key.Name)
	var wait *notYet
	switch {
	case len(faults) == 0:
		state.failures = 0
		a.metrics.synced("success", started)
	case errors.As(faults[0], &wait):
		a.queue.AddAfter(key, wait.after)
		a.metrics.synced("not-yet", started)
		logger.Debug("sync put off", "reason", wait.reason, "retryIn", wait.after)
	case onlyLostRaces(faults):
		delay := spread(conflictRetry)
		a.queue.AddAfter(key, delay)
		a.metrics.synced("lost-race", started)
		logger.Debug("sync lost a race", "error", errors.Join(faults...), "retryIn", delay)
	default:
		err := errors.Join(faults...)
		state.failures++
		delay, pause := delayAfter(err, state.failures)
		state.notBefore = time.Now().Add(pause)
		a.queue.AddAfter(key, delay)
		a.metrics.synced("error", started)
		a.reportFailure(key, faults)
		logger.Warn("sync failed", "error", err, "failures", state.failures, "retryIn", delay.Round(time.Millisecond))
	}
}

// syncRecovering turns a panic into a failure of this parent.
func (a *Applier) syncRecovering(ctx context.Context, key types.NamespacedName, state *parentState) (faults []error) {
	defer func() {
		if p := recover(); p != nil {
			faults = []error{fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return a.sync(ctx, key, state)
}

func fromUnstructured(from map[string]any, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from, into)
}
