package runner

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/edge"
	"rtj.dev/rtj/hooks/patch"
	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/store"
)

// Env is what an instance lives in.
type Env struct {
	API   *apiserver.Server
	Now   func() time.Time
	Store *store.Store
	// Trace, if set, is told of every decision that is acted upon, before it is.
	Trace func(by string, o *compose.Observation, d *compose.Decision)
	// Patched, if set, is told of every patch that was tried.
	Patched func(name string, result patch.Result)
	// JSON, if set, chooses the syncs that go through the messages of the hooks too;
	// Differs is told where that comes to something else. Nil: it panics.
	JSON    func() bool
	Differs func(err error)
}

// Options are how an instance was started, and how much of what it does takes time.
type Options struct {
	// Name of the instance: "rtj-0".
	Name string
	// PodIntegration is whether Kueue manages plain pods.
	PodIntegration bool
	// Lag has the views move by events of their own; else they are always current.
	Lag bool
	// SlowReads has readings of the store take time: they go on and end by events of
	// their own. Else they are made at once.
	SlowReads bool
	// InOrder has the children of a parent be written one after the other, though
	// several could be on their way at once.
	InOrder bool
	// Faults offers what does not happen where everything works.
	Faults bool
}

// Runner is one instance of `rtj run`. It is for one goroutine.
type Runner struct {
	Env
	Options

	// starts counts the starts of the process; down says that it does not run.
	starts int
	down   bool

	views [kindCount]view
	// caughtUp is the revision that views which do not lag are current with.
	caughtUp int64
	// jobs that are known, sorted by namespace and name.
	jobs []*job
	// edges are what the hooks remember of jobs, readings what they read.
	edges    map[types.UID]*edgeMemory
	reader   *store.Reader
	readings []*reading
	// patching are the patches of jobs, by the order in which they came.
	patching []*patching
	made     *patch.Made
	// late are requests that the process does not wait for any more. They outlive it.
	late []request

	// syncs counts the answers of hooks, and reads the readings of the store.
	syncs, reads int64
}

// job is a parent in the queue, and what is remembered of it.
type job struct {
	types.NamespacedName
	// queued is whether it waits for a sync, and alarm when it will; zero: not.
	queued bool
	alarm  time.Time
	memory *plan.Memory
	// resync is what the last answer of the hook asked for.
	resync time.Duration
	// rules of the customize hook and the hash of the template, of a generation of the
	// parent.
	rules    []*plan.Rule
	template string
	rulesFor int64
	relations
	// flight is the sync that goes on; nil: none.
	flight *flight
}

// edgeMemory is what the hooks remember of one job.
type edgeMemory struct {
	edge.Memory
	lastUse time.Time
	// told is what the snapshot means: see [Runner.Fingerprint].
	told meaning
}

// New returns an instance that has just started and sees everything.
func New(env Env, options Options) *Runner {
	r := &Runner{Env: env, Options: options}
	r.Restart(env.API.Changed)
	return r
}

// Clone returns one that goes its own way in another world with the same objects.
func (r *Runner) Clone(env Env) *Runner {
	c := *r
	c.Env = env
	c.jobs = make([]*job, len(r.jobs))
	for i, j := range r.jobs {
		c.jobs[i] = j.clone()
	}
	c.edges = maps.Clone(r.edges)
	for uid, m := range c.edges {
		copied := *m
		c.edges[uid] = &copied
	}
	c.reader = r.reader.Clone()
	c.readings = make([]*reading, len(r.readings))
	for i, of := range r.readings {
		copied := *of
		copied.going = of.going.Clone(c.reader)
		c.readings[i] = &copied
	}
	c.patching = make([]*patching, len(r.patching))
	for i, p := range r.patching {
		c.patching[i] = p.clone()
	}
	c.made = r.made.Clone()
	c.late = slices.Clone(r.late)
	return &c
}

func (j *job) clone() *job {
	c := *j
	c.memory = j.memory.Clone()
	if j.flight != nil {
		c.flight = j.flight.clone(c.memory)
	}
	return &c
}

// Observer is how the process names itself: differently at each start.
func (r *Runner) Observer() string { return r.Name + "." + strconv.Itoa(r.starts) }

// Running reports whether the process runs.
func (r *Runner) Running() bool { return !r.down }

// Syncs counts the answers of hooks.
func (r *Runner) Syncs() int64 { return r.syncs }

// Reads counts the readings of the store that were begun.
func (r *Runner) Reads() int64 { return r.reads }

// Crash ends the process. Everything is lost but the requests on their way.
func (r *Runner) Crash() {
	r.down = true
	r.jobs, r.edges, r.readings, r.patching = nil, nil, nil, nil
	r.made, r.reader = &patch.Made{}, &store.Reader{}
}

// Restart starts the process anew. Its views are as of a revision of each kind: a
// list that an API server answers from its cache may be older than what was seen
// before.
func (r *Runner) Restart(revision func(kind string) int64) {
	r.Crash()
	r.down = false
	r.starts++
	r.edges = map[types.UID]*edgeMemory{}
	r.caughtUp = 0
	for k := range r.views {
		name := kind(k).name()
		at := revision(name)
		r.views[k] = view{at, r.API.View(name, at)}
	}
	for _, o := range r.views[parents].objects {
		r.job(keyOf(o)).queued = true
	}
}

func keyOf(o *apiserver.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// job returns the job of that name, made if it is not known.
func (r *Runner) job(key types.NamespacedName) *job {
	i, found := slices.BinarySearchFunc(r.jobs, key, func(j *job, key types.NamespacedName) int {
		if c := strings.Compare(j.Namespace, key.Namespace); c != 0 {
			return c
		}
		return strings.Compare(j.Name, key.Name)
	})
	if !found {
		r.jobs = slices.Insert(r.jobs, i, &job{NamespacedName: key, memory: plan.NewMemory()})
	}
	return r.jobs[i]
}

// forget drops what is remembered of a parent that is gone.
func (r *Runner) forget(key types.NamespacedName) {
	r.jobs = slices.DeleteFunc(r.jobs, func(j *job) bool { return j.NamespacedName == key && !j.queued })
}

// Enqueue has a job synced.
func (r *Runner) Enqueue(namespace, name string) {
	r.job(types.NamespacedName{Namespace: namespace, Name: name}).queued = true
}

// ResyncAfter is how long after its last answer about a job the hook wants to be asked
// again; zero: it does not.
func (r *Runner) ResyncAfter(namespace, name string) time.Duration {
	return r.job(types.NamespacedName{Namespace: namespace, Name: name}).resync
}

// ring has a job synced at a time, or earlier if that was asked for.
func (j *job) ring(at time.Time) {
	if j.alarm.IsZero() || at.Before(j.alarm) {
		j.alarm = at
	}
}

// edge returns what the hooks remember of a job.
func (r *Runner) edge(uid types.UID) *edgeMemory {
	m := r.edges[uid]
	if m == nil {
		m = &edgeMemory{}
		r.edges[uid] = m
	}
	now := r.Now()
	for other, known := range r.edges {
		if other != uid && now.Sub(known.lastUse) > edge.Lasts {
			delete(r.edges, other)
		}
	}
	m.lastUse = now
	return m
}
