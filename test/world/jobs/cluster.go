package jobs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// Env is what a cluster lives in.
type Env struct {
	API     *apiserver.Server
	Now     func() time.Time
	Workers Workers
	// Prompt has the JobSet controller decide and begin to write in one event. Otherwise
	// what it writes may be decided by what was before: its cache is late, and its
	// requests take time.
	Prompt bool
}

// Cluster is the controllers of JobSets and Jobs, the scheduler, the nodes with their
// kubelets, and what looks after nodes and pods. What the controllers know is in the
// API server; the rest is plain data.
type Cluster struct {
	Env
	// Faultless has nothing go wrong with nodes and pods by itself.
	Faultless bool

	processes []process
	lostNodes []lostNode
	goneNodes []goneNode
	decisions []decision
	// decided counts the changes of decisions.
	decided int
	// made counts the pods of each Job, by namespace and name.
	made map[string]int

	control controlCache
}

// controlCache is what the controllers may do, until something changes. What they
// would write is dated by the second in which that was found out.
type controlCache struct {
	valid  bool
	key    controlKey
	looked int64 // the revision of the API server that the key was looked at last
	second int64
	events []event.Event
	next   time.Time
}

type controlKey struct {
	revision            int64
	lost, gone, decided int
}

// New returns the cluster of an API server, which from now on sets defaults and
// validates as JobSet's webhooks do.
func New(env Env) *Cluster {
	admission(env.API)
	return &Cluster{Env: env, made: map[string]int{}}
}

// Clone returns one that goes its own way in another world with the same objects.
func (c *Cluster) Clone(env Env) *Cluster {
	return &Cluster{
		Env: env, Faultless: c.Faultless, processes: slices.Clone(c.processes), lostNodes: slices.Clone(c.lostNodes), goneNodes: slices.Clone(c.goneNodes),
		decisions: slices.Clone(c.decisions), made: maps.Clone(c.made),
	}
}

// Kinds are those of the objects that its events depend on.
var Kinds = append([]string{"ConfigMap"}, kinds...)

// Events implements event.Actor.
func (c *Cluster) Events(add func(event.Event)) {
	c.work(add)
	if !c.Faultless {
		c.faultEvents(add)
	}
}

// work is all that is not a fault.
func (c *Cluster) work(add func(event.Event)) {
	for i, e := range c.controllers(false).events {
		do := e.Do
		second := c.control.second
		e.Do = func() {
			if c.Now().Unix() == second {
				do()
			} else {
				// The same, with the date of now.
				c.controllers(true).events[i].Do()
			}
		}
		add(e)
	}
	c.kubeletEvents(add)
}

// Next implements event.Actor.
func (c *Cluster) Next() time.Time {
	return event.Soonest(c.controllers(false).next, c.kubeletNext())
}

// kinds that the controllers look at.
var kinds = []string{"JobSet", "Job", "Pod", "Node", "Namespace", "ResourceQuota"}

// controllers returns what the controllers may do; dated: as of this second.
func (c *Cluster) controllers(dated bool) *controlCache {
	k := &c.control
	key := controlKey{lost: len(c.lostNodes), gone: len(c.goneNodes), decided: c.decided, revision: k.key.revision}
	if !k.valid || k.looked != c.API.Revision() {
		for _, kind := range kinds {
			key.revision = max(key.revision, c.API.Changed(kind))
		}
		k.looked = c.API.Revision()
	}
	second := c.Now().Unix()
	if due := !k.next.IsZero() && !c.Now().Before(k.next); k.valid && k.key == key && !due && (!dated || k.second == second) {
		return k
	}
	*k = controlCache{valid: true, key: key, looked: k.looked, second: second, events: k.events[:0]}
	add := func(e event.Event) { k.events = append(k.events, e) }
	c.jobSetEvents(add)
	c.jobEvents(add)
	c.schedulerEvents(add)
	c.nodeEvents(add)
	k.next = event.Soonest(c.nodeNext(), c.decisionsNext())
	for _, o := range c.API.List("Job") {
		if due := c.deadlineOf(jobOf(o)); due.After(c.Now()) {
			k.next = event.Soonest(k.next, due)
		}
	}
	return k
}

// settleLimit is how many events it may take until nothing is left to do.
const settleLimit = 10_000

// Settle has the controllers, the scheduler and the kubelets do all that there is to
// do now. Nothing goes wrong meanwhile, and no time passes.
func (c *Cluster) Settle() {
	for range settleLimit {
		var first event.Event
		c.work(func(e event.Event) {
			if first.Do == nil {
				first = e
			}
		})
		if first.Do == nil {
			return
		}
		first.Do()
	}
	panic(fmt.Sprintf("the cluster does not settle after %d events", settleLimit))
}
