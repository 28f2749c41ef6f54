package applier

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

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
	faults := a.inWaves(ctx, r, r.Deletions())
	waves, unchanged := r.Applications()
	for _, kind := range unchanged {
		a.metrics.unchanged(kind.Kind)
	}
	return append(faults, a.inWaves(ctx, r, waves)...)
}

// inWaves does the actions in their order.
func (a *Applier) inWaves(ctx context.Context, r *round, waves []plan.Wave) []error {
	var faults []error
	for _, wave := range waves {
		faults = append(faults, a.wave(ctx, r, wave)...)
	}
	return faults
}

func (a *Applier) wave(ctx context.Context, r *round, actions plan.Wave) []error {
	t := r.turn
	results := make([]error, len(actions))
	var next atomic.Int64
	work := func() {
		for t.take() {
			i := next.Add(1) - 1
			if i >= int64(len(actions)) {
				t.giveBack()
				return
			}
			if results[i] = a.run(ctx, r, actions[i]); results[i] != nil {
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

// run does the action of a child and turns a panic into an error of this child.
func (a *Applier) run(ctx context.Context, r *round, action *plan.Action) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", action.What, p, debug.Stack())
		}
	}()
	if err := a.do(ctx, r, action); err != nil {
		return fmt.Errorf("%s: %w", action.What, err)
	}
	return nil
}
