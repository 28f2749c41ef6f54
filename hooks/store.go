package hooks

import (
	"context"
	"slices"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// Store reads the metadata of runs. Its readings are never nil, and say why the
// store could not be read. [catalog.Reader] is one.
type Store interface {
	Read(ctx context.Context, run catalog.Run, ask catalog.Ask) *checkpoint.Snapshot
}

// Secrets has the credentials of stores. live.Secrets is one.
type Secrets interface {
	// Get returns the credentials in a Secret, or what a person has to do about it.
	Get(ctx context.Context, namespace, name string) (*catalog.Credentials, *checkpoint.Failure)
	// Forget has the Secret read anew, after a store refused what is in it.
	Forget(namespace, name string)
}

const (
	// readTimeout bounds one reading.
	readTimeout = time.Minute
	// lookAgain is how soon a runner that is not told of news asks for them.
	lookAgain = time.Second
	// recheckLasts is how long a check of a checkpoint's objects stands: as long as
	// a launch relies on one reading.
	recheckLasts = 30 * time.Second
)

// place is where a run is in which store. It is comparable, unlike a catalog.Run.
type place struct {
	location               catalog.Location
	secret                 string
	namespace, name, runID string
}

func placeOf(parent *v1beta1.ResumableTrainingJob) place {
	storage := parent.Spec.Checkpoint.Storage
	p := place{
		location:  catalog.Location{URI: storage.URI, Endpoint: storage.Endpoint, Region: storage.Region},
		namespace: parent.Namespace,
		name:      parent.Name,
		runID:     compose.RunID(parent),
	}
	if c := storage.Credentials; c != nil {
		p.secret = c.SecretName
	}
	return p
}

func (p place) run(credentials *catalog.Credentials) catalog.Run {
	return catalog.Run{Namespace: p.namespace, Name: p.name, RunID: p.runID, Location: p.location, Credentials: credentials}
}

// include are checkpoints that have to be read however old they are.
func include(parent *v1beta1.ResumableTrainingJob) []string {
	if from := parent.Spec.Resume.From; from != "" {
		return []string{from}
	}
	return nil
}

// reading is a reading that goes on.
type reading struct {
	place place
	begun time.Time
	done  chan struct{}
}

// read reads the store if the wish needs it. It waits for the reading, and
// reports whether a newer snapshot is there; if it takes long, the reading goes
// on and the job is synced again when it ends.
func (h *Hooks) read(ctx context.Context, m *memory, parent *v1beta1.ResumableTrainingJob, wish compose.CatalogRead) bool {
	p := placeOf(parent)
	r, ask := m.beginReading(p, wish, h.now())
	if r == nil {
		return false
	}
	ask.Include = include(parent)
	h.inBackground(func() {
		// What stands if the reading panics.
		snapshot := &checkpoint.Snapshot{ListedAt: r.begun, Failure: &checkpoint.Failure{
			Kind: checkpoint.Unreachable, Message: "internal error while reading the store; see the log of rtj"}}
		defer func() { h.endReading(m, r, snapshot) }()
		ctx, cancel := context.WithTimeout(h.ctx, readTimeout)
		defer cancel()
		snapshot = h.readNow(ctx, r, ask)
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

// readNow gets the credentials and reads.
func (h *Hooks) readNow(ctx context.Context, r *reading, ask catalog.Ask) *checkpoint.Snapshot {
	var credentials *catalog.Credentials
	if r.place.secret != "" && h.options.Secrets != nil {
		var failure *checkpoint.Failure
		if credentials, failure = h.options.Secrets.Get(ctx, r.place.namespace, r.place.secret); failure != nil {
			return &checkpoint.Snapshot{ListedAt: r.begun, Failure: failure}
		}
	}
	snapshot := h.options.Store.Read(ctx, r.place.run(credentials), ask)
	if f := snapshot.Failure; f != nil && f.Kind == checkpoint.AccessDenied && credentials != nil {
		h.options.Secrets.Forget(r.place.namespace, r.place.secret)
	}
	return snapshot
}

func (h *Hooks) endReading(m *memory, r *reading, snapshot *checkpoint.Snapshot) {
	h.options.Metrics.read(h.now().Sub(r.begun), snapshot)
	if waited := m.takeOver(r, snapshot); !waited {
		h.News(r.place.namespace, r.place.name)
	}
}

// beginReading returns the reading that has to begin now, or nil.
func (m *memory) beginReading(p place, wish compose.CatalogRead, now time.Time) (*reading, catalog.Ask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(wish.NotBefore) || m.reading != nil || m.satisfies(p, wish, now) {
		return nil, catalog.Ask{}
	}
	m.reading = &reading{place: p, begun: now, done: make(chan struct{})}
	m.waiting = true
	return m.reading, catalog.Ask{NotBefore: wish.NotBefore, Recheck: m.unchecked(p, wish.Recheck, now)}
}

// satisfies reports whether nothing has to be read for the wish.
func (m *memory) satisfies(p place, wish compose.CatalogRead, now time.Time) bool {
	return m.isSince(p, wish.NotBefore) && len(m.unchecked(p, wish.Recheck, now)) == 0
}

// isSince reports whether the snapshot began at the time or later.
func (m *memory) isSince(p place, t time.Time) bool {
	return t.IsZero() || m.snapshot != nil && m.place == p && !m.snapshot.ListedAt.Before(t)
}

// unchecked returns those of the checkpoints that a launch would restore whose
// objects were not compared since it became due, or not recently.
func (m *memory) unchecked(p place, ids []string, now time.Time) (left []string) {
	for _, id := range ids {
		at := m.checkedAt(p, id)
		if now.Sub(at) > recheckLasts || at.Before(m.dueSince) {
			left = append(left, id)
		}
	}
	return left
}

// becomesDue notes which checkpoints a launch would restore, by the newest
// decision.
func (m *memory) becomesDue(ids []string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(ids, m.due) {
		m.due, m.dueSince = ids, now
	}
}

// checkedAt is when the objects of a checkpoint were compared last; zero: never.
func (m *memory) checkedAt(p place, id string) time.Time {
	if m.snapshot != nil && m.place == p {
		for i := range m.snapshot.Manifests {
			if known := &m.snapshot.Manifests[i]; known.ID == id {
				return known.CheckedAt
			}
		}
	}
	return time.Time{}
}

// takeOver ends a reading. It reports whether an answer waits for it.
func (m *memory) takeOver(r *reading, snapshot *checkpoint.Snapshot) (waited bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.place, m.snapshot, m.reading = r.place, snapshot, nil
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
func (m *memory) snapshotOf(p place) *checkpoint.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.place != p {
		return nil
	}
	return m.snapshot
}

// mustWait reports whether a decision relies on a check of a checkpoint's objects
// that is still to be made.
func (m *memory) mustWait(p place, wish compose.CatalogRead, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot != nil && m.place == p && wish.NotBefore.IsZero() && len(m.unchecked(p, wish.Recheck, now)) > 0
}

// readingAgain is when to look for the outcome of a reading that goes on, or to
// begin one that must not begin yet; 0: neither.
func (m *memory) readingAgain(p place, wish compose.CatalogRead, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.reading == nil && m.satisfies(p, wish, now):
		return 0
	case m.reading == nil && wish.NotBefore.After(now):
		return wish.NotBefore.Sub(now)
	default:
		return lookAgain
	}
}
