package catalog

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rtj.dev/rtj/compose/checkpoint"
)

const (
	// liveAttempts is the number of newest attempts whose progress and result are
	// read.
	liveAttempts = 8
	// maxStarts is the number of newest attempts whose start record is read.
	maxStarts = 1024
)

// attemptObjects are the records of an attempt as they are listed; ETag is
// empty for one that is not there.
type attemptObjects struct{ start, progress, result Object }

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
