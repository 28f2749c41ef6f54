package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// Reading is a reading that goes on. Its stages are those between which a worker's
// writes make a difference to the product's.
type Reading struct {
	reader   *Reader
	run      string
	prefix   string
	ask      catalog.Ask
	began    time.Time
	before   *memory
	after    memory
	stage    int
	at       int // the next manifest that is checked
	revision int64

	attempts   []attemptObjects // of rising numbers
	manifests  []*Object        // newest first
	unread     int
	quarantine []*Object
	problems   []string
	snapshot   *checkpoint.Snapshot
}

// Snapshot is what was found; nil while the reading goes on.
func (g *Reading) Snapshot() *checkpoint.Snapshot { return g.snapshot }

// Clone returns the same reading for a clone of its Reader.
func (g *Reading) Clone(reader *Reader) *Reading {
	c := *g
	c.reader = reader
	c.after.manifests = slices.Clone(g.after.manifests) // replaced by checks
	c.problems = slices.Clip(g.problems)
	return &c
}

// attemptObjects are the records of an attempt as they are listed; nil for one that
// is not there.
type attemptObjects struct {
	number                  int32
	start, progress, result *Object
}

func (g *Reading) attempt(n int32) *attemptObjects {
	at, found := slices.BinarySearchFunc(g.attempts, n, func(a attemptObjects, n int32) int { return cmp.Compare(a.number, n) })
	if !found {
		return nil
	}
	return &g.attempts[at]
}

// stages in their order: results before the manifests are listed, so that a result
// never names a manifest that is not seen; start records after, so that no manifest
// lacks its attempt's.
var stages = []func(*Reading, *Store) error{
	(*Reading).listAttempts,
	(*Reading).readLiveRecords,
	(*Reading).listManifests,
	(*Reading).readManifests,
	(*Reading).readStarts,
	(*Reading).readQuarantine,
}

// Step makes the next stage of the reading, or checks the objects of one more
// checkpoint, and reports whether it has ended.
func (g *Reading) Step(s *Store) (ended bool) {
	if g.snapshot != nil {
		return true
	}
	if err := s.Failure(); err != nil {
		g.end(g.failed(err), -1)
		return true
	}
	if g.stage == 0 && g.nothingNew(s) {
		again := *g.before.last
		again.ListedAt = g.began
		g.after = *g.before
		g.end(&again, s.revision)
		return true
	}
	if g.stage == 0 {
		g.after = *g.before
	}
	var err error
	if g.stage < len(stages) {
		err = stages[g.stage](g, s)
		g.stage++
	} else {
		err = g.checkNext(s)
	}
	switch {
	case err != nil:
		g.end(g.failed(err), -1)
	case g.stage == len(stages) && !g.seekDue():
		revision := int64(-1)
		if s.revision == g.revision && s.env.Now().Equal(g.began) {
			revision = g.revision
		}
		g.end(g.snapshotOf(), revision)
	}
	return g.snapshot != nil
}

func (g *Reading) failed(err error) *checkpoint.Snapshot {
	failure := &checkpoint.Failure{Kind: checkpoint.Unreachable, Message: err.Error()}
	if known, ok := err.(*catalog.Error); ok {
		failure.Kind = known.Kind
	}
	return &checkpoint.Snapshot{ListedAt: g.began, Failure: failure}
}

func (g *Reading) end(snapshot *checkpoint.Snapshot, revision int64) {
	g.snapshot = snapshot
	if g.stage == 0 && snapshot.Failure != nil {
		g.after = *g.before
	}
	g.after.last, g.after.lastAsk, g.after.revision = snapshot, g.ask, revision
	after := g.after
	if g.reader.runs == nil {
		g.reader.runs = map[string]*memory{}
	}
	g.reader.runs[g.prefix] = &after
}

func (g *Reading) listAttempts(s *Store) error {
	folder := g.prefix + "attempts/"
	s.each(folder, "", func(o *Object) bool {
		number, record, _ := strings.Cut(o.Key[len(folder):], "/")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 1 || n > checkpoint.MaxAttempt || strconv.Itoa(int(n)) != number {
			return true
		}
		var place func(*attemptObjects)
		switch record {
		case "start.json":
			place = func(a *attemptObjects) { a.start = o }
		case "progress.json":
			place = func(a *attemptObjects) { a.progress = o }
		case "result.json":
			place = func(a *attemptObjects) { a.result = o }
		default:
			return true
		}
		if last := len(g.attempts) - 1; last < 0 || g.attempts[last].number != int32(n) {
			g.attempts = append(g.attempts, attemptObjects{number: int32(n)})
		}
		place(&g.attempts[len(g.attempts)-1])
		return true
	})
	// The listing has 10 before 2.
	slices.SortFunc(g.attempts, func(a, b attemptObjects) int { return cmp.Compare(a.number, b.number) })
	return nil
}

func (g *Reading) readLiveRecords(s *Store) error {
	live := g.attempts[max(0, len(g.attempts)-liveAttempts):]
	progress := make([]knownRecord[checkpoint.Progress], 0, len(live))
	results := make([]knownRecord[checkpoint.Result], 0, len(live))
	for i := range live {
		n := live[i].number
		progress = readRecord(g, s, progress, n, live[i].progress, g.before.progress, checkpoint.ParseProgress)
		results = readRecord(g, s, results, n, live[i].result, g.before.results, checkpoint.ParseResult)
	}
	g.after.progress, g.after.results = progress, results
	return nil
}

// readRecord adds an attempt's record to those that are known: as it was read before,
// if the listed one has the same ETag.
func readRecord[T any](
	g *Reading, s *Store, to []knownRecord[T], n int32, listed *Object, had []knownRecord[T], parse func(int32, []byte) (*T, error),
) []knownRecord[T] {
	if listed == nil {
		return to
	}
	for i := range had {
		if had[i].attempt == n && had[i].etag == listed.ETag {
			return append(to, had[i])
		}
	}
	o := s.get(listed.Key)
	if o == nil {
		return to // deleted since it was listed
	}
	return append(to, newRecord(g, n, o, parse))
}

func newRecord[T any](g *Reading, n int32, o *Object, parse func(int32, []byte) (*T, error)) knownRecord[T] {
	known := knownRecord[T]{attempt: n, etag: o.ETag, from: o, document: parsedAs(o, n, parse)}
	if known.problem != "" {
		known.problem = g.below(o.Key) + " " + known.problem
	}
	return known
}

func (g *Reading) listManifests(s *Store) error {
	folder := g.prefix + "manifests/"
	s.each(folder, "", func(o *Object) bool {
		name := o.Key[len(folder):]
		switch {
		case name == "":
		case !strings.HasSuffix(name, ".json") || strings.Contains(name, "/") || len(name) > longestName:
			g.problem("manifests/" + name + " is not a manifest: its name is not <checkpoint id>.json")
		default:
			g.manifests = append(g.manifests, o)
		}
		return true
	})
	slices.Reverse(g.manifests)
	if len(g.manifests) > readManifests {
		read := g.manifests[:readManifests:readManifests]
		for _, o := range g.manifests[readManifests:] {
			if g.asked(idOf(o.Key)) {
				read = append(read, o)
			} else {
				g.unread++
			}
		}
		g.manifests = read
	}
	folder = g.prefix + "quarantine/"
	s.each(folder, "", func(o *Object) bool {
		if name := o.Key[len(folder):]; strings.HasSuffix(name, ".json") && !strings.Contains(name, "/") {
			g.quarantine = append(g.quarantine, o)
		}
		return true
	})
	return nil
}

func (g *Reading) readManifests(s *Store) error {
	fresh := make([]*knownManifest, 0, len(g.manifests))
	read := g.manifests[:0]
	var failed error
	for _, o := range g.manifests {
		if known := g.before.manifest(idOf(o.Key)); known != nil && known.etag == o.ETag {
			fresh, read = append(fresh, known), append(read, o)
			continue
		}
		if failed != nil {
			continue
		}
		known, err := g.readManifest(s, o)
		if err != nil {
			failed = err
		} else if known != nil {
			fresh, read = append(fresh, known), append(read, o)
		}
	}
	g.after.manifests, g.manifests = fresh, read
	return failed
}

// readManifest returns nil for a manifest that was deleted since it was listed.
func (g *Reading) readManifest(s *Store, listed *Object) (*knownManifest, error) {
	o := s.get(listed.Key)
	if o == nil {
		return nil, g.confirmDeleted(s, listed.Key)
	}
	known := &knownManifest{etag: listed.ETag, manifest: *o.manifest()}
	known.indexes, known.manifest.Indexes = known.manifest.Indexes, nil
	known.manifest.CommittedAt = listed.Modified.UTC()
	return known, nil
}

func (g *Reading) confirmDeleted(s *Store, key string) (err error) {
	s.each(key, "", func(o *Object) bool {
		if o.Key == key {
			err = &catalog.Error{Kind: checkpoint.Unreachable, Message: g.below(key) + " is listed and cannot be read"}
		}
		return false
	})
	return err
}

// readStarts reads the start record of every attempt that a manifest can lead to. One
// that was written after the attempts were listed is asked for by name.
func (g *Reading) readStarts(s *Store) error {
	oldest := int32(checkpoint.MaxAttempt)
	var late map[int32]bool
	for i := range g.after.manifests {
		n := g.after.manifests[i].manifest.Attempt
		if n < 1 {
			continue
		}
		oldest = min(oldest, n)
		if a := g.attempt(n); a == nil || a.start == nil {
			if late == nil {
				late = map[int32]bool{}
			}
			late[n] = true
		}
	}
	starts := make([]knownRecord[checkpoint.Start], 0, len(g.attempts))
	for i := max(0, len(g.attempts)-maxStarts); i < len(g.attempts); i++ {
		if a := &g.attempts[i]; a.number >= oldest || i >= len(g.attempts)-liveAttempts {
			starts = readRecord(g, s, starts, a.number, a.start, g.before.starts, checkpoint.ParseStart)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(late)) {
		if o := s.get(g.prefix + "attempts/" + strconv.Itoa(int(n)) + "/start.json"); o != nil {
			starts = append(starts, newRecord(g, n, o, checkpoint.ParseStart))
		}
	}
	if late != nil {
		slices.SortFunc(starts, func(a, b knownRecord[checkpoint.Start]) int { return cmp.Compare(a.attempt, b.attempt) })
	}
	g.after.starts = starts
	return nil
}

func (g *Reading) readQuarantine(s *Store) error {
	g.after.quarantine = nil
	for _, listed := range g.quarantine {
		id := idOf(listed.Key)
		if g.after.manifest(id) == nil {
			continue
		}
		if had := slices.IndexFunc(g.before.quarantine, func(k knownQuarantine) bool { return k.id == id && k.etag == listed.ETag }); had >= 0 {
			g.after.quarantine = append(g.after.quarantine, g.before.quarantine[had])
		} else if o := s.get(listed.Key); o != nil {
			known := knownQuarantine{id: id, etag: o.ETag, document: parsedAs(o, id, checkpoint.ParseQuarantine)}
			if known.problem != "" {
				known.problem = g.below(o.Key) + " " + known.problem
			}
			g.after.quarantine = append(g.after.quarantine, known)
		}
	}
	return nil
}

func unreadProblem(unread int) string {
	return fmt.Sprintf("%d manifests older than the newest %d were not read", unread, readManifests)
}

func moreProblems(more int) string { return fmt.Sprintf("%d more problems", more) }
