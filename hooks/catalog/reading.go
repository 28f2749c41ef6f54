package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

const (
	// liveAttempts is the number of newest attempts whose progress and result are
	// read.
	liveAttempts = 8
	// maxStarts is the number of newest attempts whose start record is read.
	maxStarts = 1024
	// thoroughManifests is the number of newest manifests of which every object is
	// compared.
	thoroughManifests = 16
	// maxProblems bounds what a snapshot reports.
	maxProblems = 16
)

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

// attemptObjects are the records of an attempt as they are listed; ETag is
// empty for one that is not there.
type attemptObjects struct{ start, progress, result Object }

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

func (r *reading) listAttempts(ctx context.Context) error {
	r.attempts = map[int32]*attemptObjects{}
	prefix := r.run.prefix() + "attempts/"
	for o, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		number, record, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 1 || n > checkpoint.MaxAttempt || strconv.Itoa(int(n)) != number {
			continue
		}
		at := r.attempts[int32(n)]
		if at == nil {
			at = &attemptObjects{}
		}
		switch record {
		case "start.json":
			at.start = o
		case "progress.json":
			at.progress = o
		case "result.json":
			at.result = o
		default:
			continue
		}
		r.attempts[int32(n)] = at
	}
	return nil
}

// newestAttempts are those with records, newest first, at most max.
func (r *reading) newestAttempts(most int) []int32 {
	numbers := slices.Sorted(maps.Keys(r.attempts))
	slices.Reverse(numbers)
	return numbers[:min(len(numbers), most)]
}

func (r *reading) readLiveRecords(ctx context.Context) error {
	live := r.newestAttempts(liveAttempts)
	progress, results := map[int32]Object{}, map[int32]Object{}
	for _, n := range live {
		progress[n], results[n] = r.attempts[n].progress, r.attempts[n].result
	}
	if err := readRecords(ctx, r, progress, &r.memory.progress, checkpoint.ParseProgress); err != nil {
		return err
	}
	return readRecords(ctx, r, results, &r.memory.results, checkpoint.ParseResult)
}

// readStarts reads the start record of every attempt that a manifest can lead
// to. One that was written after the attempts were listed is asked for by name.
func (r *reading) readStarts(ctx context.Context) error {
	oldest := int32(checkpoint.MaxAttempt)
	starts := map[int32]Object{}
	for _, o := range r.manifests {
		if m := r.memory.manifests[idOf(o)].manifest; m.Attempt > 0 {
			oldest = min(oldest, m.Attempt)
			if r.attempts[m.Attempt] == nil || r.attempts[m.Attempt].start.ETag == "" {
				starts[m.Attempt] = Object{Key: r.recordKey(m.Attempt, "start.json")}
			}
		}
	}
	for i, n := range r.newestAttempts(maxStarts) {
		if (n >= oldest || i < liveAttempts) && r.attempts[n].start.ETag != "" {
			starts[n] = r.attempts[n].start
		}
	}
	return readRecords(ctx, r, starts, &r.memory.starts, checkpoint.ParseStart)
}

func (r *reading) recordKey(attempt int32, record string) string {
	return r.run.prefix() + "attempts/" + strconv.Itoa(int(attempt)) + "/" + record
}

// readRecords brings known up to date with what is listed, and forgets the
// rest. An object with a key but without an ETag was not listed.
func readRecords[K cmp.Ordered, T any](
	ctx context.Context, r *reading, listed map[K]Object, known *map[K]document[T], parse func(K, []byte) (*T, error),
) error {
	fresh := make(map[K]document[T], len(listed))
	var stale []K
	for key, o := range listed {
		switch had, ok := (*known)[key]; {
		case o.Key == "":
		case ok && had.etag == o.ETag:
			fresh[key] = had
		default:
			stale = append(stale, key)
		}
	}
	read := make([]document[T], len(stale))
	err := fanOut(ctx, r.options.Requests, len(stale), func(ctx context.Context, i int) error {
		data, o, err := r.store.Get(ctx, listed[stale[i]].Key, checkpoint.MaxDocumentBytes)
		if errors.Is(err, ErrNotExist) {
			return nil // deleted since it was listed, or never there
		}
		if _, tooLarge := errors.AsType[*TooLargeError](err); err != nil && !tooLarge {
			return err
		}
		read[i].etag = cmp.Or(o.ETag, listed[stale[i]].ETag)
		if err == nil {
			read[i].value, err = parse(stale[i], data)
		}
		if err != nil {
			read[i].problem = strings.TrimPrefix(listed[stale[i]].Key, r.run.prefix()) + " " + err.Error()
		}
		return nil
	})
	for i, key := range stale {
		if read[i].etag != "" {
			fresh[key] = read[i]
		}
	}
	*known = fresh
	return err
}

func (r *reading) listManifests(ctx context.Context) error {
	prefix := r.run.prefix() + "manifests/"
	var newest, included []Object
	for o, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(o.Key, prefix)
		if name == "" {
			continue // what consoles create as a folder
		}
		if !strings.HasSuffix(name, ".json") || strings.Contains(name, "/") || len(name) > 128 {
			r.problem("manifests/" + name + " is not a manifest: its name is not <checkpoint id>.json")
			continue
		}
		newest = append(newest, o)
		// The listing comes oldest first: keep twice the window and drop the rest.
		if len(newest) >= 2*r.options.Manifests {
			included = append(included, r.cut(&newest)...)
		}
	}
	included = append(included, r.cut(&newest)...)
	slices.Reverse(newest)
	slices.Reverse(included)
	r.manifests = append(newest, included...)
	return nil
}

// cut drops all but the newest manifests and returns those of the dropped that
// are asked for.
func (r *reading) cut(newest *[]Object) (included []Object) {
	drop := max(len(*newest)-r.options.Manifests, 0)
	for _, o := range (*newest)[:drop] {
		if r.asked(idOf(o)) {
			included = append(included, o)
		} else {
			r.unread++
		}
	}
	*newest = slices.Delete(*newest, 0, drop)
	return included
}

func (r *reading) asked(id string) bool {
	return slices.Contains(r.ask.Include, id) || slices.Contains(r.ask.Recheck, id)
}

func idOf(o Object) string { return strings.TrimSuffix(path.Base(o.Key), ".json") }

// readManifests reads those that are new. One that was deleted since it was
// listed is dropped.
func (r *reading) readManifests(ctx context.Context) error {
	fresh := make(map[string]*knownManifest, len(r.manifests))
	var unknown []Object
	for _, o := range r.manifests {
		if known := r.memory.manifests[idOf(o)]; known != nil && known.etag == o.ETag {
			fresh[idOf(o)] = known
		} else {
			unknown = append(unknown, o)
		}
	}
	read := make([]*knownManifest, len(unknown))
	err := fanOut(ctx, r.options.Requests, len(unknown), func(ctx context.Context, i int) (err error) {
		read[i], err = r.readManifest(ctx, unknown[i])
		return err
	})
	for i, o := range unknown {
		if read[i] != nil {
			fresh[idOf(o)] = read[i]
		}
	}
	r.memory.manifests = fresh
	r.manifests = slices.DeleteFunc(r.manifests, func(o Object) bool { return fresh[idOf(o)] == nil })
	return err
}

// readManifest returns nil for a manifest that was deleted since it was listed.
func (r *reading) readManifest(ctx context.Context, listed Object) (*knownManifest, error) {
	id := idOf(listed)
	data, o, err := r.store.Get(ctx, listed.Key, checkpoint.MaxDocumentBytes)
	if errors.Is(err, ErrNotExist) {
		return nil, r.confirmDeleted(ctx, listed.Key)
	}
	known := &knownManifest{etag: cmp.Or(listed.ETag, o.ETag)}
	if tooLarge, ok := errors.AsType[*TooLargeError](err); ok {
		known.manifest = checkpoint.NamedManifest(id)
		if known.manifest.Defect == nil {
			known.manifest = known.manifest.WithDefect(checkpoint.ReasonCorruptManifest, "manifests/"+id+".json "+tooLarge.Error())
		}
	} else if err != nil {
		return nil, err
	} else {
		known.manifest = checkpoint.ParseManifest(id, data)
	}
	known.indexes, known.manifest.Indexes = known.manifest.Indexes, nil
	known.manifest.CommittedAt = listed.Modified.UTC()
	return known, nil
}

// confirmDeleted fails when the manifest is still listed: a proxy that answers
// "not found" must not make a run look shorter than it is.
func (r *reading) confirmDeleted(ctx context.Context, key string) error {
	for o, err := range r.store.List(ctx, r.run.prefix()+"manifests/") {
		if err != nil {
			return err
		}
		if o.Key == key {
			return &Error{checkpoint.Unreachable, strings.TrimPrefix(key, r.run.prefix()) + " is listed and cannot be read"}
		}
	}
	return nil
}

func (r *reading) listQuarantine(ctx context.Context) error {
	prefix := r.run.prefix() + "quarantine/"
	for o, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		if name := strings.TrimPrefix(o.Key, prefix); strings.HasSuffix(name, ".json") && !strings.Contains(name, "/") {
			r.quarantine = append(r.quarantine, o)
		}
	}
	return nil
}

// readQuarantine reads the records of the manifests that are read.
func (r *reading) readQuarantine(ctx context.Context) error {
	listed := map[string]Object{}
	for _, o := range r.quarantine {
		if r.memory.manifests[idOf(o)] != nil {
			listed[idOf(o)] = o
		}
	}
	return readRecords(ctx, r, listed, &r.memory.quarantine, checkpoint.ParseQuarantine)
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
