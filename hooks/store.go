package hooks

import (
	"context"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
)

// Run is one run's place in the store.
type Run struct {
	// Storage without credentials.
	Storage v1beta1.Storage
	// SecretName is the Secret with the credentials; empty: those of this process.
	SecretName string
	Namespace  string
	Name       string
	RunID      string
}

// Store reads the metadata of a run.
type Store interface {
	// Read lists a run and reads what changed. The snapshot says why the store
	// could not be read, if so; it is never nil and never modified afterwards. The
	// listing begins after the call, and ListedAt is when, also with a failure.
	// recheck has the completeness of all candidates checked again.
	Read(ctx context.Context, run Run, recheck bool) *checkpoint.Snapshot
}

const (
	// readTimeout bounds one reading.
	readTimeout = time.Minute
	// lookAgain is how soon a runner that is not told of news asks for them.
	lookAgain = time.Second
)

// reading is a reading that goes on.
type reading struct {
	run     Run
	begun   time.Time
	recheck bool
	done    chan struct{}
}

// read reads the store if the wish needs it. It waits for the reading, and
// reports whether a newer snapshot is there; if it takes long, the reading goes
// on and the job is synced again when it ends.
func (h *Hooks) read(ctx context.Context, m *memory, run Run, wish compose.CatalogRead) bool {
	r, begin := m.beginReading(run, wish, h.now())
	if !begin {
		return false
	}
	h.inBackground(func() {
		ctx, cancel := context.WithTimeout(h.ctx, readTimeout)
		defer cancel()
		// What stands if Read panics.
		snapshot := &checkpoint.Snapshot{ListedAt: r.begun, Failure: &checkpoint.Failure{
			Kind: checkpoint.Unreachable, Message: "internal error while reading the store; see the log of rtj"}}
		defer func() { h.takeOver(m, r, snapshot) }()
		snapshot = h.options.Store.Read(ctx, run, wish.Recheck)
	})
	patience := time.NewTimer(h.options.InlineRead)
	defer patience.Stop()
	select {
	case <-r.done:
		return true
	case <-patience.C:
	case <-ctx.Done():
	}
	return m.stopWaiting(r)
}

// takeOver ends a reading.
func (h *Hooks) takeOver(m *memory, r *reading, snapshot *checkpoint.Snapshot) {
	h.options.Metrics.read(h.now().Sub(r.begun), snapshot)
	if waited := m.endReading(r, snapshot); !waited {
		h.news(r.run.Namespace, r.run.Name)
	}
}

// beginReading decides whether a reading has to begin now.
func (m *memory) beginReading(run Run, wish compose.CatalogRead, now time.Time) (*reading, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wish.NotBefore.IsZero() || now.Before(wish.NotBefore) || m.reading != nil || m.satisfies(run, wish) {
		return nil, false
	}
	m.reading = &reading{run: run, begun: now, recheck: wish.Recheck, done: make(chan struct{})}
	m.waiting = true
	return m.reading, true
}

// satisfies reports whether the snapshot is the one wished for.
func (m *memory) satisfies(run Run, wish compose.CatalogRead) bool {
	return m.snapshot != nil && m.run == run && !m.snapshot.ListedAt.Before(wish.NotBefore) && (m.rechecked || !wish.Recheck)
}

// endReading takes over a snapshot. It reports whether an answer waits for it.
func (m *memory) endReading(r *reading, snapshot *checkpoint.Snapshot) (waited bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run, m.snapshot, m.rechecked = r.run, snapshot, r.recheck
	m.reading = nil
	close(r.done)
	return m.waiting
}

// stopWaiting reports whether the reading ended after all.
func (m *memory) stopWaiting(r *reading) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reading != r {
		return true
	}
	m.waiting = false
	return false
}

// snapshotOf returns the newest snapshot of the run, or nil.
func (m *memory) snapshotOf(run Run) *checkpoint.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != run {
		return nil
	}
	return m.snapshot
}

// readingAgain is when to look for the outcome of a reading that goes on, or to
// begin one that must not begin yet; 0: neither.
func (m *memory) readingAgain(run Run, wish compose.CatalogRead, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.reading != nil:
		return lookAgain
	case wish.NotBefore.IsZero() || m.satisfies(run, wish):
		return 0
	case wish.NotBefore.After(now):
		return wish.NotBefore.Sub(now)
	default:
		return lookAgain
	}
}
