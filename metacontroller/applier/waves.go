package applier

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// action is what makes one child what the hook wants.
type action struct {
	kind *childKind
	// what and which child, for messages.
	what string
	// do is nil if the child is so already.
	do func(context.Context) error
}

// turn is the share of one sync: after so many written children the rest is put
// off, until the parents that wait had their turn.
type turn struct {
	left atomic.Int64
	// putOff says that there is a rest.
	putOff bool
}

func newTurn(writes int) *turn {
	t := &turn{}
	t.left.Store(int64(writes))
	return t
}

// take uses up one write, if there is one left. One that failed is given back:
// enough of them would keep the rest from ever being written.
func (t *turn) take() bool {
	if t.left.Add(-1) >= 0 {
		return true
	}
	t.giveBack()
	return false
}

func (t *turn) giveBack() { t.left.Add(1) }

// manage makes the children what the hook wants: deletions first, then the rest
// in the order of the answer. A child that fails does not stop the others.
func (a *Applier) manage(ctx context.Context, r *round) []error {
	faults := a.inWaves(ctx, r.turn, a.deletions(r))
	return append(faults, a.inWaves(ctx, r.turn, a.applications(r))...)
}

// deletions are the children that are not wanted any more, the last one of the
// answer that held them first. Those that no answer has held since the start come
// before them, the youngest first, and then by the order of spec.childResources,
// backwards.
func (a *Applier) deletions(r *round) []action {
	wanted := make(map[childKey]bool, len(r.desired))
	for _, d := range r.desired {
		wanted[d.key()] = true
	}
	type candidate struct {
		child
		place int
	}
	var unwanted []candidate
	for key, c := range r.claimed {
		if !wanted[key] && !terminating(c.observed) {
			unwanted = append(unwanted, candidate{c, r.state.get(c.GetUID()).place})
		}
	}
	slices.SortFunc(unwanted, func(a, b candidate) int {
		if a.place != b.place {
			if a.place == 0 || b.place == 0 {
				return cmp.Compare(a.place, b.place)
			}
			return cmp.Compare(b.place, a.place)
		}
		return cmp.Or(
			b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time),
			cmp.Compare(b.kind.rank, a.kind.rank),
			strings.Compare(b.GetNamespace()+"/"+b.GetName(), a.GetNamespace()+"/"+a.GetName()))
	})
	actions := make([]action, len(unwanted))
	for i, c := range unwanted {
		actions[i] = action{c.kind, "deleting " + c.String(), func(ctx context.Context) error { return a.delete(ctx, r.state, c.child) }}
	}
	return actions
}

// applications are the children of the answer, in its order.
func (a *Applier) applications(r *round) []action {
	actions := make([]action, len(r.desired))
	for i, d := range r.desired {
		place := i + 1
		actions[i] = action{kind: d.kind, what: d.String()}
		if c, exists := r.claimed[d.key()]; exists {
			r.state.note(c.GetUID(), func(known *record) { known.place = place })
			actions[i].do = a.changes(r, c, d)
		} else {
			actions[i].do = func(ctx context.Context) error { return a.create(ctx, r, d, place) }
		}
	}
	return actions
}

// inWaves does the actions in their order. A wave is a run of neighbours of one
// kind. Those of a wave are begun in order and may be under way at once; a wave
// begins when the API server has answered all of the one before.
func (a *Applier) inWaves(ctx context.Context, t *turn, actions []action) []error {
	var faults []error
	for len(actions) > 0 {
		n := 1
		for n < len(actions) && actions[n].kind == actions[0].kind {
			n++
		}
		faults = append(faults, a.wave(ctx, t, actions[:n])...)
		actions = actions[n:]
	}
	return faults
}

func (a *Applier) wave(ctx context.Context, t *turn, actions []action) []error {
	actions = slices.DeleteFunc(slices.Clone(actions), func(a action) bool { return a.do == nil })
	results := make([]error, len(actions))
	var next atomic.Int64
	work := func() {
		for t.take() {
			i := next.Add(1) - 1
			if i >= int64(len(actions)) {
				t.giveBack()
				return
			}
			if results[i] = actions[i].run(ctx); results[i] != nil {
				t.giveBack()
			}
		}
	}
	var others sync.WaitGroup
	for range min(len(actions), a.limits.ParentWrites) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	t.putOff = t.putOff || next.Load() < int64(len(actions))
	return slices.DeleteFunc(results, func(err error) bool { return err == nil })
}

// run does the action and turns a panic into an error of this child.
func (a action) run(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", a.what, p, debug.Stack())
		}
	}()
	if err := a.do(ctx); err != nil {
		return fmt.Errorf("%s: %w", a.what, err)
	}
	return nil
}
