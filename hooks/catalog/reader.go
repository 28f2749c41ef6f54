package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// Run names a run and the store that it is in.
type Run struct {
	Namespace, Name, RunID string
	Location               Location
	// Credentials of the store; nil means those of the environment.
	Credentials *Credentials
}

// Ask is what a reading must hold. The zero value asks for a reading that
// begins now.
type Ask struct {
	// NotBefore accepts a finished reading whose listing began at this time or
	// later; zero accepts only one that begins after the call.
	NotBefore time.Time
	// Recheck are checkpoints, by id, whose completeness is checked again, object
	// by object: before a launch, the one that it restores.
	Recheck []string
	// Include are checkpoints, by id, that are read however old they are:
	// resume.from.
	Include []string
}

// Options bound what a Reader does. Zero values mean the defaults.
type Options struct {
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// Timeout of one reading: 10 s by default.
	Timeout time.Duration
	// Manifests is the number of newest manifests of a run that are read; older
	// ones are listed only. 256 by default.
	Manifests int
	// Requests is the number of requests that a reading has under way: 8 by default.
	Requests int
	// Readings is the number of readings under way: 32 by default.
	Readings int
	// CachedRuns and CachedBytes bound what is kept: 1024 runs, 256 MiB.
	CachedRuns  int
	CachedBytes int64
	// Thorough compares every object of every manifest. By default that is done
	// for the newest 16 and for those asked for; of older ones the index objects
	// and the number and bytes of the data objects are compared.
	Thorough bool
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Timeout = orDefault(o.Timeout, 10*time.Second)
	o.Manifests = orDefault(o.Manifests, 256)
	o.Requests = orDefault(o.Requests, 8)
	o.Readings = orDefault(o.Readings, 32)
	o.CachedRuns = orDefault(o.CachedRuns, 1024)
	o.CachedBytes = orDefault(o.CachedBytes, 256<<20)
	return o
}

func orDefault[T int | int64 | time.Duration](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}

// Reader reads runs and remembers what cannot change. It is safe for use by
// several goroutines; readings of one run follow each other, and callers that
// waited for the same one share it.
type Reader struct {
	open    Opener
	options Options
	runs    *runCache
	// readings bounds the readings under way, large the large objects in memory.
	readings chan struct{}
	large    chan struct{}
}

// NewReader returns a Reader of the stores that open opens.
func NewReader(open Opener, o Options) *Reader {
	o = o.withDefaults()
	return &Reader{
		open: open, options: o,
		runs:     newRunCache(o.CachedRuns, o.CachedBytes),
		readings: make(chan struct{}, o.Readings),
		large:    make(chan struct{}, 1),
	}
}

// Offline returns a Reader of a folder that stands for the root of the store,
// whatever location a run names. Its listings begin at now.
func Offline(dir string, now time.Time) *Reader {
	open := func(Location, *Credentials) (Store, error) { return OpenDirectory(dir), nil }
	return NewReader(open, Options{
		Now: func() time.Time { return now }, Timeout: time.Hour, Manifests: 1 << 20, Thorough: true,
	})
}

// Read reads the run. The snapshot is never nil and must not be changed: others
// may have it too. Where the store could not be read it has a Failure.
func (r *Reader) Read(ctx context.Context, run Run, ask Ask) *checkpoint.Snapshot {
	if err := run.check(); err != nil {
		return failed(r.options.Now(), err)
	}
	memory := r.runs.acquire(run.key())
	defer r.runs.release(memory)

	arrived := memory.begun.Load()
	if err := memory.lock(ctx); err != nil {
		return failed(r.options.Now(), abandoned(err))
	}
	defer memory.unlock()
	if last := memory.last; last != nil && last.answers(ask) &&
		(last.number > arrived || last.begunSince(ask.NotBefore)) {
		return last.snapshot
	}
	select {
	case r.readings <- struct{}{}:
		defer func() { <-r.readings }()
	case <-ctx.Done():
		return failed(r.options.Now(), abandoned(ctx.Err()))
	}
	number := memory.begun.Add(1)
	snapshot := r.readNow(ctx, run, ask, memory)
	if ctx.Err() == nil {
		// Not of a caller that gave up: the others still want an answer.
		memory.last = &finished{number: number, ask: ask, snapshot: snapshot}
	}
	memory.measure()
	return snapshot
}

func (r *Reader) readNow(ctx context.Context, run Run, ask Ask, memory *runMemory) *checkpoint.Snapshot {
	began := r.options.Now()
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	store, err := r.open(run.Location, run.Credentials)
	if err != nil {
		return failed(began, err)
	}
	read := &reading{
		store:   &throttled{Store: store, slots: make(chan struct{}, r.options.Requests)},
		run:     run,
		options: r.options,
		large:   r.large,
		memory:  memory,
		ask:     ask,
		began:   began,
	}
	snapshot, err := read.do(ctx)
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded {
			err = read.late(err)
		}
		return failed(began, err)
	}
	return snapshot
}

// finished is a reading that others may share.
type finished struct {
	number   int64
	ask      Ask
	snapshot *checkpoint.Snapshot
}

// answers reports whether it did all that is asked.
func (f *finished) answers(ask Ask) bool {
	return contains(f.ask.Recheck, ask.Recheck) && contains(f.ask.Include, ask.Include)
}

// begunSince reports whether it succeeded and began at the time or later.
func (f *finished) begunSince(when time.Time) bool {
	return !when.IsZero() && f.snapshot.Readable() && !f.snapshot.ListedAt.Before(when)
}

func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func (r Run) check() error {
	for what, part := range map[string]string{"namespace": r.Namespace, "name": r.Name, "run id": r.RunID} {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\\\x00") {
			return &Error{checkpoint.Unreachable, fmt.Sprintf("the %s %q cannot be part of a key", what, part)}
		}
	}
	return nil
}

// prefix is where the run is, relative to the store's root.
func (r Run) prefix() string { return r.Namespace + "/" + r.Name + "/" + r.RunID + "/" }

func (r Run) key() string {
	return strings.Join([]string{r.Location.URI, r.Location.Endpoint, r.Location.Region, r.prefix()}, "\x00")
}

func failed(began time.Time, err error) *checkpoint.Snapshot {
	f := &checkpoint.Failure{Kind: checkpoint.Unreachable, Message: err.Error()}
	if known, ok := err.(*Error); ok {
		f.Kind = known.Kind
	}
	return &checkpoint.Snapshot{ListedAt: began, Failure: f}
}

func abandoned(err error) error {
	return &Error{checkpoint.Unreachable, "waiting for an earlier reading of the run: " + err.Error()}
}
