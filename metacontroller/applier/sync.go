package applier

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier/plan"
)

// round is one sync of one parent: what is decided, and how it is carried out.
type round struct {
	*plan.Round
	key   types.NamespacedName
	state *parentState
	turn  *turn
}

// sync does one round for one parent: observe, ask the hook, make it so. It
// returns everything that went wrong; what can be done in spite of it is done.
// Unfinished says that there is more to write than fits into one turn.
func (a *Applier) sync(ctx context.Context, key types.NamespacedName, state *parentState) (faults []error, unfinished bool) {
	r := a.begin(key, state)
	if r == nil {
		return nil, false
	}
	if wait := state.Outstanding(time.Now(), views{a}); wait > 0 {
		return []error{&plan.NotYet{Reason: "the caches do not show the last writes yet", After: wait}}, false
	}
	for _, step := range []func(context.Context, *round) error{a.keepFinalizer, a.claim, a.decide} {
		if err := step(ctx, r); err != nil {
			return []error{err}, false
		}
	}
	return a.act(ctx, r)
}

// begin returns nil for a parent that is gone or none of ours.
func (a *Applier) begin(key types.NamespacedName, state *parentState) *round {
	parent := a.parents.get(key.Namespace, key.Name)
	if parent == nil {
		a.forget(key)
		return nil
	}
	if state.For(parent.GetUID()) {
		state.rules, state.rulesFor = nil, question{}
		a.subscriptions.set(key, nil)
	}
	if !a.plan.Concerns(parent) {
		a.forget(key)
		return nil
	}
	r := a.plan.Begin(parent, state.Memory)
	if r == nil {
		return nil
	}
	return &round{Round: r, key: key, state: state, turn: newTurn(a.limits.TurnWrites)}
}

func (a *Applier) keepFinalizer(ctx context.Context, r *round) error {
	return a.do(ctx, r, r.KeepFinalizer())
}

// decide asks the hook and checks its answer. One that cannot be accepted is
// refused as a whole, before anything is written.
func (a *Applier) decide(ctx context.Context, r *round) error {
	related, err := a.relatedTo(ctx, r.key, r.Parent, r.state)
	if err != nil {
		return err
	}
	response, err := a.ask(ctx, r, related)
	if err != nil {
		return err
	}
	if err := a.limits.check(response); err != nil {
		return a.refused(r, err)
	}
	answer, err := plan.AnswerOf(response, r.Parent.GetNamespace())
	if err != nil {
		return a.refused(r, err)
	}
	if err := r.Decide(answer, time.Now()); err != nil {
		return a.refused(r, err)
	}
	return nil
}

// act makes it so: children, then the parent's finalizer and status.
func (a *Applier) act(ctx context.Context, r *round) (faults []error, unfinished bool) {
	if r.Manages() {
		faults = a.manage(ctx, r)
		unfinished = r.turn.putOff
	}
	if err := a.do(ctx, r, r.LetGo(len(faults) == 0 && !unfinished)); err != nil {
		return []error{err}, false
	}
	if err := a.do(ctx, r, r.Status()); err != nil {
		faults = append(faults, err)
	}
	return faults, unfinished
}

// ask calls the sync or the finalize hook.
func (a *Applier) ask(ctx context.Context, r *round, related contract.ObjectMap) (*contract.SyncResponse, error) {
	request := r.Request(a.controllerJSON, related)
	name, hook, f := nameOfHook(r.Finalizing), a.controller.Spec.Hooks.Sync, a.hooks.Sync
	if r.Finalizing {
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
func (a *Applier) refused(r *round, err error) error {
	a.metrics.hookFailed(nameOfHook(r.Finalizing), CauseAnswer)
	parent := contract.ObjectKey(r.key.Namespace, r.key.Name)
	return &Failure{CauseAnswer, fmt.Errorf("response refused: %s %s: %w", a.plan.Parent.Key(), parent, err)}
}

// views are what the caches show.
type views struct{ *Applier }

func (v views) of(kind *plan.ChildKind) *objects {
	if kind == nil {
		return v.parents
	}
	return v.childCaches[kind]
}

// Get implements [plan.View].
func (v views) Get(kind *plan.ChildKind, namespace, name string) *plan.Object {
	return v.of(kind).get(namespace, name)
}

// Revision implements [plan.View].
func (v views) Revision(kind *plan.ChildKind) string {
	return v.of(kind).indexer.LastStoreSyncResourceVersion()
}
