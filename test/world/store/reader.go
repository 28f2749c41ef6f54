package store

import (
	"maps"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// These are catalog's own bounds; the tests that compare readings cross each.
const (
	readManifests     = 256
	thoroughManifests = 16
	liveAttempts      = 8
	maxStarts         = 1024
	maxProblems       = 16
	longestName       = 128
	incompleteAge     = 30 * time.Second
)

// Reader makes the readings that a [catalog.Reader] would make, and remembers what
// that would. The zero value has read nothing yet. Each instance of rtj has its own.
type Reader struct {
	runs map[string]*memory
}

// Clone returns a Reader with the same memory, for a clone of the world.
func (r *Reader) Clone() *Reader { return &Reader{runs: maps.Clone(r.runs)} }

// Read reads the run. The snapshot must not be changed.
func (r *Reader) Read(s *Store, run catalog.Run, ask catalog.Ask) *checkpoint.Snapshot {
	reading := r.Begin(s, run, ask)
	for !reading.Step(s) {
	}
	return reading.Snapshot()
}

// Read is the reading of a Reader that remembers nothing.
func (s *Store) Read(run catalog.Run, ask catalog.Ask) *checkpoint.Snapshot {
	return new(Reader).Read(s, run, ask)
}

// memory is what is known of a run between two readings. It is never changed: a
// reading makes a new one.
type memory struct {
	// last and lastAsk are the newest reading; revision is that of the store when
	// it was made at once, else -1.
	last     *checkpoint.Snapshot
	lastAsk  catalog.Ask
	revision int64

	manifests  []*knownManifest // newest first
	starts     []knownRecord[checkpoint.Start]
	progress   []knownRecord[checkpoint.Progress]
	results    []knownRecord[checkpoint.Result]
	quarantine []knownQuarantine
}

// knownRecord is a record of an attempt as it was read.
type knownRecord[T any] struct {
	attempt int32
	etag    string
	from    *Object
	document[T]
}

// knownQuarantine is a quarantine record as it was read.
type knownQuarantine struct {
	id   string
	etag string
	document[checkpoint.Quarantine]
}

// depth is how far the objects of a checkpoint were compared.
type depth int8

const (
	unchecked depth = iota
	byListing
	byIndexes
)

// knownManifest is a manifest and what is known about its objects. A check makes a new
// one.
type knownManifest struct {
	etag     string
	manifest checkpoint.Manifest
	// indexes is kept from its reading to its first check only.
	indexes []checkpoint.IndexRef
	depth   depth
	// listing is what the verdict rests on.
	listing []*Object
}

func (m *memory) manifest(id string) *knownManifest {
	for i := range m.manifests {
		if m.manifests[i].manifest.ID == id {
			return m.manifests[i]
		}
	}
	return nil
}

// Begin begins a reading: its listing begins now.
func (r *Reader) Begin(s *Store, run catalog.Run, ask catalog.Ask) *Reading {
	prefix := RunPrefix(run.Location.URI, run.Namespace, run.Name, run.RunID)
	before := r.runs[prefix]
	if before == nil {
		before = &memory{revision: -1}
	}
	g := &Reading{reader: r, run: run.RunID, prefix: prefix, ask: ask, began: s.env.Now(), before: before, revision: s.revision}
	if last := before.last; last != nil && contains(before.lastAsk.Recheck, ask.Recheck) && contains(before.lastAsk.Include, ask.Include) {
		if !ask.NotBefore.IsZero() && last.Readable() && !last.ListedAt.Before(ask.NotBefore) {
			g.snapshot = last
		}
	}
	return g
}

func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// nothingNew reports whether a reading would find what the last one did: then only
// the time of the listing differs.
func (g *Reading) nothingNew(s *Store) bool {
	m := g.before
	if m.revision != s.revision || len(s.late) > 0 || len(g.ask.Recheck) > 0 || !slices.Equal(m.lastAsk.Include, g.ask.Include) {
		return false
	}
	for i := range m.manifests {
		known := &m.manifests[i].manifest
		if known.Incomplete != "" && g.began.Sub(known.CheckedAt) >= incompleteAge {
			return false
		}
	}
	return true
}

// asked reports whether a manifest is read however old it is.
func (g *Reading) asked(id string) bool {
	return slices.Contains(g.ask.Include, id) || slices.Contains(g.ask.Recheck, id)
}

// snapshotOf puts together what was found.
func (g *Reading) snapshotOf() *checkpoint.Snapshot {
	m := &g.after
	s := &checkpoint.Snapshot{
		ListedAt:    g.began,
		Unread:      g.unread,
		Manifests:   make([]checkpoint.Manifest, 0, len(g.manifests)),
		Attempts:    make(map[int32]checkpoint.Records, len(g.attempts)),
		Quarantined: make(map[string]checkpoint.Quarantine, len(m.quarantine)),
	}
	for i := range m.manifests {
		s.Manifests = append(s.Manifests, m.manifests[i].manifest)
	}
	for i := range g.attempts {
		n := g.attempts[i].number
		s.Attempts[n] = checkpoint.Records{Start: record(m.starts, n), Progress: record(m.progress, n), Result: record(m.results, n)}
	}
	for i := range m.starts {
		if n := m.starts[i].attempt; g.attempt(n) == nil { // written since the attempts were listed
			s.Attempts[n] = checkpoint.Records{Start: m.starts[i].value}
		}
	}
	for i := range m.quarantine {
		q := &m.quarantine[i]
		if q.value == nil {
			s.Quarantined[q.id] = checkpoint.Quarantine{Checkpoint: q.id}
		} else {
			s.Quarantined[q.id] = *q.value
		}
	}
	g.report()
	s.Problems = g.problems
	return s
}

func record[T any](known []knownRecord[T], n int32) *T {
	for i := range known {
		if known[i].attempt == n {
			return known[i].value
		}
	}
	return nil
}

// report is what was found and is of no use, in the order of catalog.
func (g *Reading) report() {
	m := &g.after
	problems(g, m.starts)
	problems(g, m.progress)
	problems(g, m.results)
	for i := range m.quarantine {
		if q := &m.quarantine[i]; q.problem != "" {
			g.problem(q.problem)
		}
	}
	if g.unread > 0 {
		g.problem(unreadProblem(g.unread))
	}
	if more := len(g.problems) - maxProblems; more > 0 {
		g.problems = append(g.problems[:maxProblems-1], moreProblems(more+1))
	}
}

func problems[T any](g *Reading, known []knownRecord[T]) {
	for i := range known {
		if k := &known[i]; k.problem != "" {
			g.problem(k.problem)
		}
	}
}

func (g *Reading) problem(text string) { g.problems = append(g.problems, text) }

// below is a key relative to the run.
func (g *Reading) below(key string) string { return strings.TrimPrefix(key, g.prefix) }

// Truth is what a reading would find if the store answered, agreed with itself, and
// listed all that is there.
func (s *Store) Truth(run catalog.Run, ask catalog.Ask) *checkpoint.Snapshot {
	c := *s // shares the objects, and only reads
	c.failure, c.unreadable, c.late = nil, nil, nil
	return c.Read(run, ask)
}
