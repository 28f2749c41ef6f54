package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/fingerprint"
)

// Reductions are why [Explore] need not try every order. Each names events that
// commute with those they are not tried against, or a freedom that is left to the
// random runs.
var Reductions = []string{
	"time passes only when nothing else may happen, and then to the next moment at which something is due; that it passes earlier, so that what was possible comes late, is one of the faults",
	"what the JobSet and Job controllers, scheduler, kubelets, garbage collector, workers and store may do, and what Kueue says of its queues, is done in one order among themselves: each writes objects of its own, and the others react to what stands in the end; against rtj, Kueue and people every order is tried",
	"of these, what rtj cannot see, neither in JobSets, Jobs and queues nor in the store nor by a LIST of pods, happens together with the next that it can",
	"where Kueue has nothing to do but to find no room, and nothing that the other jobs do has it take the quota away from the one that holds it, jobs go one after the other: first those that wait, as long as the holder keeps its quota whatever it does until time passes, else the holder, once no pod of theirs is left; what they do commutes, so a fault that concerns both meets them in this order",
	"a sync that would change nothing that anybody reads is made at once, with its requests",
	"with several jobs, what goes wrong with nodes, pods and Jobs is tried only where nothing else may happen but that time passes, and the later ones are created there and at the very beginning; that time passes earlier, and that people act within a sync, is then not tried. What goes wrong with workers and the store is tried wherever it may",
	"the children of one answer are written one after the other, though several may be on their way: they are different objects",
	"the requests of a sync and its patches follow each other; that something else happens between two of them is one of the faults, and so is a crash there and each fate of a request. What goes wrong with nodes, workers and the store goes wrong before or after: it does so in objects that the rest of the sync does not read",
	"rtj's views follow at once before each sync; a start by an older view is one of the faults",
	"a failure that lasts ends after a while that is longer than all that rtj does about it, not at any moment; a queue that people stopped starts when nothing else may happen",
	"of failures that rtj cannot tell apart one is tried: a store that throttles is like one that does not answer, memory that is short and a slow start like a pod that is evicted and an image that cannot be had, pressure on a pod like its eviction, a quota that refuses Pods like one that refuses the Jobs that would have them, and a lost node that is deleted like one that stays lost",
	"where one thing only may happen, it does, and states between are not counted",
	"in a world with several jobs and a fault, or with acts of people, states are equal also if the distances of times from now lie between the same two of fingerprint.Marks; of the worlds that differ so, and so of the orders of two deadlines between the same marks, the first that is found is explored",
	"states are equal if they differ only in UIDs, resourceVersions, the date, and in what nobody reads any more (package fingerprint)",
}

// trial is what is tried in a state: an event by its name, or time that passes.
type trial struct {
	name  string
	fault bool
}

// healing is the line of a script for the end of all failures that last.
const healing = "what fails is well again"

// answersAgain is that the store does, and creation that of a job.
const (
	answersAgain = "store: answers again"
	creation     = "user: create "
)

// lasts is how long failures last that do not end by themselves.
var lasts = []struct {
	name string
	long time.Duration
}{
	{"store: outage", 3 * time.Minute},
	{"store: access denied", 3 * time.Minute},
	{"fault: lose node ", 30 * time.Minute},
	{"fault: drain node ", time.Minute},
	{"fault: refuse ", time.Minute},
	{" hangs", 10 * time.Minute},
}

// alike are faults that are not tried, since another is like them.
var alike = []string{"store: SlowDown", "fault: slow start of ", "fault: memory of ", "fault: pressure on ", "fault: refuse Pod ", "fault: delete node "}

// settling are the events whose order among themselves makes no difference, with
// queueEvents, which are what Kueue says of its queues.
var (
	settling    = []string{"jobset: ", "job: ", "scheduler: ", "kubelet: ", "nodes: ", "podgc: ", "taints: ", "collector: ", "namespace: ", "trainer: ", "store: "}
	queueEvents = []string{"kueue: reconcile ClusterQueue ", "kueue: reconcile LocalQueue "}
)

// hasPrefix tells whether the name of an event begins with one of some.
func hasPrefix(name string, some []string) bool {
	return slices.ContainsFunc(some, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// trials are what the reductions leave, in a stable order.
func (w *World) trials() (list []trial) {
	if !w.healsAt.IsZero() && !w.clock.at.Before(w.healsAt) {
		return []trial{{name: healing}}
	}
	amid := ""
	for e := range w.events() {
		if !e.Fault && midSync(e.Name) {
			amid = e.Name
			list = append(list, trial{name: amid})
			break
		}
	}
	first := ""
	if amid == "" {
		first = w.foremost()
	}
	byThemselves, free := false, amid != ""
	for e := range w.events() {
		// Anything else in the middle of a sync counts as a fault.
		fault := e.Fault || amid != ""
		if e.Name == amid || fault && (w.faults == 0 || !w.tried(e.Name)) || amid != "" && e.Fault && !strings.HasPrefix(e.Name, "rtj-") || e.Name == answersAgain {
			continue
		}
		free = free || e.helps
		if !fault && first != "" && jobOf(e.Name) != first {
			continue
		}
		if e.helps && settlesByItself(e.Name) {
			if byThemselves {
				continue
			}
			byThemselves = true
		}
		list = append(list, trial{e.Name, fault})
	}
	if w.config.Jobs > 1 && free {
		list = slices.DeleteFunc(list, func(t trial) bool { return deferred(t, w.runners[0].Syncs() > 0) })
	}
	next := w.next()
	if !w.healsAt.IsZero() && (next.IsZero() || w.healsAt.Before(next)) {
		next = w.healsAt
	}
	if !next.IsZero() && (!free || w.faults > 0 && amid == "") {
		list = append(list, trial{passing(w.pause(next)), free})
	}
	if len(list) == 0 && w.people.stopped() {
		list = append(list, trial{name: healing})
	}
	return list
}

// deferred tells whether something is tried only where nothing else may happen, or, where
// that is for people, at the beginning. Faults of workers and of the store are not: their
// names are those of what settles by itself.
func deferred(t trial, began bool) bool {
	return t.fault && !strings.HasPrefix(t.name, "rtj-") && !strings.HasPrefix(t.name, "kueue: ") && !settlesByItself(t.name) ||
		began && strings.HasPrefix(t.name, creation)
}

// queuesReady has Kueue say of its queues what it has to, before anything else.
func (w *World) queuesReady() {
	for more := true; more; {
		more = false
		for e := range w.events() {
			if more = aboutQueues(e.Name); more {
				w.do(*e)
				break
			}
		}
	}
}

// aboutQueues tells whether an event is what Kueue says of its queues.
func aboutQueues(name string) bool {
	return hasPrefix(name, queueEvents)
}

// tried tells whether a fault is one of those that are.
func (w *World) tried(name string) bool {
	return !hasPrefix(name, alike)
}

// midSync tells whether an event is a request of a sync that began, or of its patches.
func midSync(name string) bool {
	who, what, _ := strings.Cut(name, ": ")
	return strings.HasPrefix(who, "rtj-") && !strings.HasPrefix(what, "sync ") && what != "starts"
}

// settlesByItself tells whether an event is one of those whose order among
// themselves makes no difference.
func settlesByItself(name string) bool {
	return hasPrefix(name, settling) || aboutQueues(name)
}

// try has one of the trials happen, and counts the fault if it is one.
func (w *World) try(t trial) {
	if t.fault {
		w.fails(t.name)
		defer func() {
			if w.faults--; w.faults == 0 {
				w.offerFaults(false)
			}
		}()
	}
	if t.name == healing {
		w.heal()
		return
	}
	if d, ok := timeOf(t.name); ok {
		w.pass(d)
		return
	}
	for e := range w.events() {
		if e.Name == t.name {
			before := w.visible()
			w.do(*e)
			if !t.fault && settlesByItself(t.name) {
				w.goOn(before)
			}
			return
		}
	}
	w.fail(clonesAgree, fmt.Sprintf("%q is not offered", t.name))
}

// fails notes until when a failure lasts.
func (w *World) fails(name string) {
	for _, l := range lasts {
		if strings.HasPrefix(name, l.name) || strings.HasSuffix(name, l.name) {
			w.healsAt = w.clock.at.Add(l.long)
		}
	}
}

// heal ends all failures that last.
func (w *World) heal() {
	w.note(healing)
	w.healsAt = time.Time{}
	w.cluster.Heal()
	w.trainer.Heal()
	w.store.Up()
	w.people.startQueues()
	w.changed()
}

// sight is what rtj can see of what happens by itself, and its LISTs.
type sight struct{ jobSets, jobs, queues, store, pods int64 }

func (w *World) visible() sight {
	s := sight{
		jobSets: w.api.Changed("JobSet"), jobs: w.api.Changed("Job"), store: w.store.Revision(),
		queues: max(w.api.Changed("ClusterQueue"), w.api.Changed("LocalQueue")),
	}
	for _, pod := range w.api.List("Pod") {
		if mayRun(pod) {
			s.pods++
		}
	}
	return s
}

// goOn has what settles by itself go on until rtj could see that it did.
func (w *World) goOn(before sight) {
	for w.broken == nil && w.visible() == before {
		more := false
		for e := range w.events() {
			if more = !e.Fault && settlesByItself(e.Name) && e.Name != answersAgain; more {
				w.do(*e)
				break
			}
		}
		if !more {
			return
		}
	}
}

// quiet is the world after a sync that may happen now and changes nothing that anybody
// reads; nil if there is none.
func (w *World) quiet(trials []trial) *World {
	for _, t := range trials {
		if !strings.HasPrefix(t.name, "rtj-") || t.fault || !strings.Contains(t.name, ": sync ") {
			continue
		}
		next, reads := w.Clone(), w.reads()
		next.try(t)
		next.endSync()
		switch {
		case next.broken != nil || next.reads() != reads:
		case next.api.Revision() == w.api.Revision(), next.outside() == w.outside():
			return next
		}
	}
	return nil
}

// endSync has the requests of a sync follow that began.
func (w *World) endSync() {
	for w.broken == nil {
		more := false
		for e := range w.events() {
			if more = !e.Fault && midSync(e.Name); more {
				w.do(*e)
				break
			}
		}
		if !more {
			return
		}
	}
}

// reads counts the readings of the store that were begun.
func (w *World) reads() (n int64) {
	for _, r := range w.runners {
		n += r.Reads()
	}
	return n
}

// outside is the world without rtj: what its syncs act upon.
func (w *World) outside() fingerprint.Sum {
	h := w.newHash()
	h.Server(w.api)
	w.kueue.Fingerprint(h)
	return h.Sum()
}
