package applier

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
)

// round is one sync of one parent.
type round struct {
	key   types.NamespacedName
	state *parentState
	turn  *turn

	parent *observed
	// finalizing says that the finalize hook decides.
	finalizing bool
	// selector tells which objects are children of the parent, and claimed are
	// those that are.
	selector labels.Selector
	claimed  map[childKey]child

	// What the hook answered. finalized lets the parent go.
	desired   []*desiredChild
	status    map[string]any
	finalized bool
}

// sync does one round for one parent: observe, ask the hook, make it so. It
// returns everything that went wrong; what can be done in spite of it is done.
// Unfinished says that there is more to write than fits into one turn.
func (a *Applier) sync(ctx context.Context, key types.NamespacedName, state *parentState) (faults []error, unfinished bool) {
	r := a.begin(key, state)
	if r == nil {
		return nil, false
	}
	if wait := state.outstanding(time.Now()); wait > 0 {
		return []error{&notYet{reason: "the caches do not show the last writes yet", after: wait}}, false
	}
	for _, step := range []func(context.Context, *round) error{a.keepFinalizer, a.observeChildren, a.decide} {
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
	if state.uid != parent.GetUID() {
		state.forUID(parent.GetUID())
		a.subscriptions.set(key, nil)
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
	return &round{key: key, state: state, turn: newTurn(a.limits.TurnWrites), parent: parent, finalizing: finalizing}
}

// keepFinalizer adds our finalizer before anything else is done for a parent, and
// removes it where there is no finalize hook any more.
func (a *Applier) keepFinalizer(ctx context.Context, r *round) (err error) {
	if r.finalizing {
		return nil
	}
	r.parent, err = a.setFinalizer(ctx, r.parent, r.state, a.controller.Spec.Hooks.Finalize != nil)
	return err
}

func (a *Applier) observeChildren(ctx context.Context, r *round) (err error) {
	if r.selector, err = a.selectorOf(r.parent); err != nil {
		return err
	}
	r.claimed, err = a.claim(ctx, r.parent, r.selector, r.state)
	return err
}

// decide asks the hook and checks its answer. One that cannot be accepted is
// refused as a whole, before anything is written.
func (a *Applier) decide(ctx context.Context, r *round) error {
	related, err := a.relatedTo(ctx, r.key, r.parent, r.state)
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
	if r.desired, err = a.desiredChildren(r.parent, r.selector, response); err != nil {
		return a.refused(r, err)
	}
	if r.status, err = desiredStatus(r.parent, response); err != nil {
		return a.refused(r, err)
	}
	r.finalized = r.finalizing && response.Finalized
	r.state.resyncAfter(response.ResyncAfterSeconds)
	return nil
}

// act makes it so: children, then the parent's finalizer and status.
func (a *Applier) act(ctx context.Context, r *round) (faults []error, unfinished bool) {
	managed := (r.finalizing || !terminating(r.parent)) && !heldByGarbageCollector(r.parent)
	if managed {
		r.state.prune(r.existing())
		faults = a.manage(ctx, r)
		unfinished = r.turn.putOff
	}
	// The parent stays until what was to be removed is seen to be gone. The
	// deletions bring events.
	if r.finalized && len(faults) == 0 && !unfinished && !(managed && r.unwanted() > 0) {
		parent, err := a.setFinalizer(ctx, r.parent, r.state, false)
		if err != nil {
			return []error{err}, false
		}
		if terminating(parent) && len(parent.GetFinalizers()) == 0 {
			return nil, false
		}
		r.parent = parent
	}
	if err := a.writeStatus(ctx, r.parent, r.state, r.status); err != nil {
		faults = append(faults, err)
	}
	return faults, unfinished
}

// existing are the uids of the parent and of the children that are observed.
func (r *round) existing() map[types.UID]bool {
	exist := map[types.UID]bool{r.parent.GetUID(): true}
	for _, c := range r.claimed {
		exist[c.GetUID()] = true
	}
	return exist
}

// unwanted counts the children that are observed and not desired.
func (r *round) unwanted() int {
	n := len(r.claimed)
	for _, d := range r.desired {
		if _, ok := r.claimed[d.key()]; ok {
			n--
		}
	}
	return n
}

// ask calls the sync or the finalize hook.
func (a *Applier) ask(ctx context.Context, r *round, related contract.ObjectMap) (*contract.SyncResponse, error) {
	request := &contract.SyncRequest{
		Controller: a.controllerJSON,
		Parent:     r.parent.json(),
		Children:   contract.ObjectMap{},
		Related:    related,
		Finalizing: r.finalizing,
	}
	for _, kind := range a.children {
		request.Children[kind.key()] = map[string]json.RawMessage{}
	}
	for key, c := range r.claimed {
		request.Children.Set(key.kind, key.object, c.json())
	}
	name, hook, f := nameOfHook(r.finalizing), a.controller.Spec.Hooks.Sync, a.hooks.Sync
	if r.finalizing {
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
	a.metrics.hookFailed(nameOfHook(r.finalizing), CauseAnswer)
	parent := contract.ObjectKey(r.key.Namespace, r.key.Name)
	return &Failure{CauseAnswer, fmt.Errorf("response refused: %s %s: %w", a.parent.key(), parent, err)}
}

func fromUnstructured(from map[string]any, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from, into)
}
