package kueue

import (
	"slices"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// by is how Kueue signs its writes.
const by = "kueue"

// Env is what Kueue lives in.
type Env struct {
	API *apiserver.Server
	Now func() time.Time
}

// Config is how Kueue was installed.
type Config struct {
	// PodsReady is waitForPodsReady; nil has it off, which 0.19 does not by default.
	PodsReady *PodsReady
	// Late has what the scheduler decided be written later, as an event of its own: by
	// then the Workload may be another. Otherwise decision and write are one event.
	Late bool
	// NodeFailures has nodes of admitted Workloads fail, which Kueue notices.
	NodeFailures bool
	// Checks is what the controller of an AdmissionCheck adds to the pods when it says
	// Ready: podSetUpdates by the name of the check.
	Checks map[string][]any
}

// PodsReady is waitForPodsReady.
type PodsReady struct {
	// Timeout counts from the admission, RecoveryTimeout from when the pods were last
	// ready; 0: as Timeout.
	Timeout, RecoveryTimeout time.Duration
	// BackoffBase is the first wait after an eviction; it doubles up to BackoffMax.
	BackoffBase, BackoffMax time.Duration
	// BackoffLimit is after how many evictions the next one deactivates; nil: never.
	BackoffLimit *int32
}

// Defaults are those of Kueue 0.19.
func Defaults() Config {
	return Config{PodsReady: &PodsReady{Timeout: 30 * time.Minute, BackoffBase: time.Minute, BackoffMax: time.Hour}}
}

// Kueue is an instance of it. Its memory is plain data; what it cannot know from its
// watches is in the API server.
type Kueue struct {
	Env
	config Config

	// revision is up to where its watches have told it.
	revision  int64
	workloads []workload
	queues    []clusterQueue
	// locals are the LocalQueues that are not stopped, flavors and classes what was last
	// seen of the others.
	locals, flavors, checks, classes []*apiserver.Object
	// rewrite are the WorkloadPriorityClasses whose value is to be written to Workloads.
	rewrite []string
	// writes were decided and are still to be written.
	writes []write

	// plan is what the scheduler does next in each ClusterQueue, until something changes.
	planned bool
	plans   []plan
}

// New returns a Kueue that starts now, and has the API server validate as Kueue's
// webhooks and CRDs do.
func New(env Env, config Config) *Kueue {
	admission(env.API)
	return &Kueue{Env: env, config: config}
}

// Clone returns one that goes its own way in another world with the same objects.
func (k *Kueue) Clone(env Env) *Kueue {
	c := *k
	c.Env = env
	c.workloads = slices.Clone(k.workloads)
	c.queues = slices.Clone(k.queues)
	c.locals, c.flavors, c.checks, c.classes = slices.Clip(k.locals), slices.Clip(k.flavors), slices.Clip(k.checks), slices.Clip(k.classes)
	c.rewrite = slices.Clone(k.rewrite)
	c.writes = slices.Clone(k.writes)
	c.plans = slices.Clone(k.plans)
	return &c
}

// Restart has it forget what it does not read from the API server.
func (k *Kueue) Restart() {
	*k = Kueue{Env: k.Env, config: k.config}
}

// Kinds are those of the objects that its events depend on.
var Kinds = []string{"Workload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "AdmissionCheck", workloadClasses}

// Events implements event.Actor.
func (k *Kueue) Events(add func(event.Event)) {
	k.observe()
	k.queueEvents(add)
	k.classEvents(add)
	k.reconcileEvents(add)
	k.scheduleEvents(add)
	k.writeEvents(add)
	k.checkEvents(add)
	k.nodeEvents(add)
}

// Next implements event.Actor.
func (k *Kueue) Next() (next time.Time) {
	k.observe()
	for i := range k.workloads {
		next = event.Soonest(next, k.due(k.workloads[i].seen))
	}
	return next
}
