package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// maxProblems bounds what a snapshot reports.
const maxProblems = 16

// reading is one reading of a run.
type reading struct {
	store   Store
	run     Run
	options Options
	large   chan struct{}
	memory  *runMemory
	ask     Ask
	began   time.Time

	attempts   map[int32]*attemptObjects
	manifests  []Object // newest first
	unread     int
	quarantine []Object

	problems      []string
	checked, todo atomic.Int64
	// judging guards a Completeness while index objects are read side by side.
	judging sync.Mutex
}

// do reads in an order in which the worker's later writes cannot be seen
// without its earlier ones: results are read before the manifests are listed,
// so that a result never names a manifest that the snapshot lacks; start
// records are read after, so that no manifest lacks its attempt's.
func (r *reading) do(ctx context.Context) (*checkpoint.Snapshot, error) {
	if err := r.listAttempts(ctx); err != nil {
		return nil, err
	}
	if err := r.readLiveRecords(ctx); err != nil {
		return nil, err
	}
	if err := fanOut(ctx, 2, 2, func(ctx context.Context, i int) error {
		if i == 0 {
			return r.listManifests(ctx)
		}
		return r.listQuarantine(ctx)
	}); err != nil {
		return nil, err
	}
	if err := r.readManifests(ctx); err != nil {
		return nil, err
	}
	if err := r.readStarts(ctx); err != nil {
		return nil, err
	}
	if err := r.readQuarantine(ctx); err != nil {
		return nil, err
	}
	if err := r.checkObjects(ctx); err != nil {
		return nil, err
	}
	return r.snapshot(), nil
}

// late says how far the reading came when its time was over.
func (r *reading) late(err error) error {
	known, ok := errors.AsType[*Error](err)
	if !ok {
		known = &Error{checkpoint.Unreachable, "the store did not answer in time"}
	}
	message := fmt.Sprintf("%s (no reading within %s)", known.Message, r.options.Timeout)
	if todo := r.todo.Load(); todo > 0 {
		message += fmt.Sprintf("; %d of %d checkpoints are checked, the next reading goes on from there", r.checked.Load(), todo)
	}
	return &Error{known.Kind, message}
}

func (r *reading) snapshot() *checkpoint.Snapshot {
	m := r.memory
	s := &checkpoint.Snapshot{
		ListedAt:    r.began,
		Unread:      r.unread,
		Manifests:   make([]checkpoint.Manifest, 0, len(r.manifests)),
		Attempts:    make(map[int32]checkpoint.Records, len(r.attempts)),
		Quarantined: make(map[string]checkpoint.Quarantine, len(m.quarantine)),
	}
	for _, o := range r.manifests {
		s.Manifests = append(s.Manifests, m.manifests[idOf(o)].manifest)
	}
	for n := range r.attempts {
		s.Attempts[n] = checkpoint.Records{Start: m.starts[n].value, Progress: m.progress[n].value, Result: m.results[n].value}
	}
	for n, start := range m.starts {
		if r.attempts[n] == nil { // written since the attempts were listed
			s.Attempts[n] = checkpoint.Records{Start: start.value}
		}
	}
	for id, record := range m.quarantine {
		if record.value == nil {
			// Its name is enough: a record that cannot be read lifts nothing.
			record.value = &checkpoint.Quarantine{Checkpoint: id}
		}
		s.Quarantined[id] = *record.value
	}
	s.Problems = r.report()
	return s
}

func (r *reading) problem(text string) { r.problems = append(r.problems, text) }

// report is what was found and is of no use, in a fixed order.
func (r *reading) report() []string {
	m := r.memory
	collect(r, m.starts)
	collect(r, m.progress)
	collect(r, m.results)
	collect(r, m.quarantine)
	if r.unread > 0 {
		r.problem(fmt.Sprintf("%d manifests older than the newest %d were not read", r.unread, r.options.Manifests))
	}
	if more := len(r.problems) - maxProblems; more > 0 {
		r.problems = append(r.problems[:maxProblems-1], fmt.Sprintf("%d more problems", more+1))
	}
	return r.problems
}

func collect[K cmp.Ordered, T any](r *reading, records map[K]document[T]) {
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if problem := records[key].problem; problem != "" {
			r.problem(problem)
		}
	}
}
