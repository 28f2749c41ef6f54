package hooks

import (
	"cmp"
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
	// recheckLasts is how long a check of the candidates' objects stands: as long as
	// a launch relies on one reading.
	recheckLasts = 30 * time.Second
	// maxRecheck is how many candidates are checked again before a launch, the
	// newest ones: the one to restore is among them unless newer ones do not fit.
	maxRecheck = 3
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
	place   place
	begun   time.Time
	recheck bool
	done    chan struct{}
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
	m.reading = &reading{place: p, begun: now, recheck: wish.Recheck, done: make(chan struct{})}
	m.waiting = true
	ask := catalog.Ask{NotBefore: wish.NotBefore}
	if wish.Recheck && m.place == p {
		ask.Recheck = newest(m.snapshot, maxRecheck)
	}
	return m.reading, ask
}

// satisfies reports whether nothing has to be read for the wish.
func (m *memory) satisfies(p place, wish compose.CatalogRead, now time.Time) bool {
	return m.isSince(p, wish.NotBefore) && (!wish.Recheck || m.isRechecked(p, now))
}

// isSince reports whether the snapshot began at the time or later.
func (m *memory) isSince(p place, t time.Time) bool {
	return t.IsZero() || m.snapshot != nil && m.place == p && !m.snapshot.ListedAt.Before(t)
}

// isRechecked reports whether the objects of the candidates were compared
// recently, and since the last attempt ended. A store that cannot be read has none.
func (m *memory) isRechecked(p place, now time.Time) bool {
	return m.snapshot != nil && m.place == p && (m.snapshot.Failure != nil ||
		now.Sub(m.recheckedAt) <= recheckLasts && !m.recheckedAt.Before(m.endedAt))
}

// newest returns the ids of the newest usable checkpoints.
func newest(s *checkpoint.Snapshot, most int) []string {
	if s == nil {
		return nil
	}
	var usable []*checkpoint.Manifest
	for i := range s.Manifests {
		m := &s.Manifests[i]
		if _, bad := s.Quarantined[m.ID]; !bad && m.Defect == nil && m.Incomplete == "" {
			usable = append(usable, m)
		}
	}
	slices.SortFunc(usable, func(a, b *checkpoint.Manifest) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), cmp.Compare(b.Step, a.Step), cmp.Compare(b.ID, a.ID))
	})
	var ids []string
	for _, m := range usable[:min(most, len(usable))] {
		ids = append(ids, m.ID)
	}
	return ids
}

// takeOver ends a reading. It reports whether an answer waits for it.
func (m *memory) takeOver(r *reading, snapshot *checkpoint.Snapshot) (waited bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.place != r.place {
		m.place, m.recheckedAt = r.place, time.Time{}
	}
	m.snapshot = snapshot
	if r.recheck && snapshot.Failure == nil {
		m.recheckedAt = r.begun
	}
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
func (m *memory) snapshotOf(p place) *checkpoint.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.place != p {
		return nil
	}
	return m.snapshot
}

// mustWait reports whether a decision relies on a check of the candidates'
// objects that is still to be made.
func (m *memory) mustWait(p place, wish compose.CatalogRead, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot != nil && m.place == p && wish.Recheck && wish.NotBefore.IsZero() && !m.isRechecked(p, now)
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
