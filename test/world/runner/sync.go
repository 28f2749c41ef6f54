package runner

import (
	"maps"
	"slices"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/edge"
	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/test/world/apiserver"
)

// flight is a sync of one job that goes on.
type flight struct {
	began time.Time
	round *plan.Round
	// stage is what comes once nothing is pending any more.
	stage stage
	// pending are the actions that may be done now, and waves what follows them. One
	// after the other says that the first is to be answered before the next is sent.
	pending          []*plan.Action
	waves            []plan.Wave
	oneAfterTheOther bool
	faults           []error

	// parent is the newest state that is known, and children what it controls, by
	// kind and name.
	parent   *apiserver.Object
	children []*apiserver.Object

	// answering is the answer of the hook on its way, and reading the one that it
	// waits for until patience ends.
	answering *edge.Answering
	reading   *edge.Reading
	patience  time.Time
	// message is the request of the hook, for a sync that goes through JSON too.
	message []byte
}

// stage is a part of a sync.
type stage int

const (
	claims stage = iota
	asks
	answers
	deletes
	applies
	letsGo
	writesStatus
	ended
)

func (f *flight) clone(m *plan.Memory) *flight {
	c := *f
	c.round = f.round.Clone(m)
	c.pending = slices.Clone(f.pending)
	c.faults = slices.Clone(f.faults)
	c.children = slices.Clone(f.children)
	if f.answering != nil {
		answering := *f.answering
		observation := *f.answering.Observation
		answering.Observation = &observation
		c.answering = &answering
	}
	return &c
}

// ready reports whether a job may be synced now.
func (r *Runner) ready(j *job, now time.Time) bool {
	if j.flight != nil || now.Before(j.memory.NotBefore) || !j.queued && (j.alarm.IsZero() || now.Before(j.alarm)) {
		return false
	}
	// Before the views show its last writes, a sync would only be put off: an event
	// tells of them.
	return r.outstanding(j, now) == 0
}

// outstanding is for how long the writes of a job are waited for to show.
func (r *Runner) outstanding(j *job, now time.Time) time.Duration {
	parent := r.views[parents].get(j.Namespace, j.Name)
	if parent == nil || parent.UID != string(j.memory.UID) {
		return 0
	}
	return j.memory.Outstanding(now, views{r})
}

// Sync begins a sync of a job, and goes on to the first request that it sends or
// waits for.
func (r *Runner) Sync(namespace, name string) {
	for _, j := range r.jobs {
		if j.Namespace == namespace && j.Name == name && j.flight == nil {
			r.begin(j)
			return
		}
	}
}

func (r *Runner) begin(j *job) {
	now := r.Now()
	j.queued, j.alarm = false, time.Time{}
	parent := r.views[parents].get(j.Namespace, j.Name)
	if parent == nil || !controller.Concerns(planned(parent)) {
		r.forget(j.NamespacedName)
		return
	}
	j.memory.Start(now)
	if j.memory.For(planned(parent).GetUID()) {
		j.rules, j.rulesFor, j.relations = nil, 0, relations{}
	}
	round := controller.Begin(planned(parent), j.memory)
	if round == nil {
		return
	}
	j.flight = &flight{began: now, round: round, parent: parent, oneAfterTheOther: true}
	j.flight.add(round.KeepFinalizer())
	r.goOn(j)
}

// add has an action done; nil is none.
func (f *flight) add(actions ...*plan.Action) {
	for _, a := range actions {
		if a != nil {
			f.pending = append(f.pending, a)
		}
	}
}

// goOn decides, until something has to be sent or waited for.
func (r *Runner) goOn(j *job) {
	f := j.flight
	for len(f.pending) == 0 && f.reading == nil {
		if len(f.waves) > 0 {
			f.pending, f.waves = slices.Clone(f.waves[0]), f.waves[1:]
			return
		}
		if f.stage <= asks && len(f.faults) > 0 {
			f.stage = ended
		}
		switch f.stage++; f.stage - 1 {
		case claims:
			r.claim(f)
		case asks:
			r.ask(j)
		case answers:
			if !r.answer(j) {
				f.stage = answers
			}
		case deletes:
			f.oneAfterTheOther = false
			if f.round.Manages() {
				f.waves = f.round.Deletions()
			} else {
				f.stage = letsGo
			}
		case applies:
			f.waves, _ = f.round.Applications()
		case letsGo:
			f.oneAfterTheOther = true
			f.add(f.round.LetGo(len(f.faults) == 0))
		case writesStatus:
			f.add(f.round.Status())
		default:
			r.end(j)
			return
		}
	}
}

// end says when the job comes again.
func (r *Runner) end(j *job) {
	f, now := j.flight, r.Now()
	j.flight = nil
	again := j.memory.After(f.faults, false, f.began, now, func(d time.Duration) time.Duration { return d })
	if again.After > 0 {
		j.ring(now.Add(again.After))
	}
	if !j.memory.ResyncAt.IsZero() {
		j.ring(j.memory.ResyncAt)
	}
}

// claim finds the children in the views.
func (r *Runner) claim(f *flight) {
	if _, err := f.round.Select(); err != nil {
		f.faults = append(f.faults, err)
		return
	}
	uid := f.parent.UID
	for _, k := range controller.Children {
		var owned, orphans []*plan.Object
		for _, o := range r.views[childKind(k)].objects {
			if o.Label(plan.UIDLabel) == "" {
				continue // not watched
			}
			switch o.Owner() {
			case uid:
				owned = append(owned, planned(o))
				f.children = append(f.children, o)
			case "":
				if o.Label(plan.UIDLabel) == uid {
					orphans = append(orphans, planned(o))
				}
			}
		}
		f.add(f.round.Claim(k, owned, orphans)...)
	}
}

// ask puts the question to the hook.
func (r *Runner) ask(j *job) {
	f := j.flight
	o, err := r.observe(j)
	if err != nil {
		f.faults = append(f.faults, err)
		f.stage = ended
		return
	}
	if r.JSON != nil && r.JSON() {
		f.message = r.message(j)
	}
	asked := edge.Asked{Finalizing: f.round.Finalizing, Launches: true, Told: true}
	f.answering = r.edge(o.Parent.UID).Begin(o, asked, r.Now())
}

// answer makes the answer of the hook. It is false while it waits for the store.
func (r *Runner) answer(j *job) bool {
	f := j.flight
	o := f.answering.Observation
	m := r.edge(o.Parent.UID)
	for {
		need := f.answering.Next(&m.Memory, r.Now())
		switch {
		case need.Reading != nil:
			of := r.beginReading(o.Parent.UID, need.Reading)
			f.reading, f.patience = need.Reading, r.Now().Add(edge.InlineRead)
			if r.SlowReads {
				return false
			}
			r.readAll(of)
			f.reading = nil
			f.answering.Waited(&m.Memory)
		case need.Launch != nil:
			f.answering.Tried(&m.Memory, r.dryRun(o.Parent, need.Launch))
		default:
			r.answered(j, m)
			return true
		}
	}
}

// answered takes the answer.
func (r *Runner) answered(j *job, m *edgeMemory) {
	f := j.flight
	o, d := f.answering.Observation, f.answering.Decision
	resync := f.answering.ResyncAfter(&m.Memory)
	j.resync = resync
	r.syncs++
	if r.Trace != nil {
		r.Trace(r.Name, o, d)
	}
	if d.Finalized {
		delete(r.edges, o.Parent.UID)
	}
	// In process the patches are handed over before the applier has the answer.
	r.submit(o.Parent, d.Patches)
	if f.message != nil {
		r.compareWithJSON(j, resync)
	}
	a, err := answerOf(f, d, resync)
	// What it was made upon is of no use any more.
	f.answering, f.message, f.children = nil, nil, nil
	if err == nil {
		err = f.round.Decide(a, r.Now())
	}
	if err != nil {
		f.faults = append(f.faults, err)
		f.stage = ended
	}
}

// observe gathers what the job is decided upon.
func (r *Runner) observe(j *job) (*compose.Observation, error) {
	f := j.flight
	parent, err := decodedParent(f.parent)
	if err != nil {
		return nil, err
	}
	if generation := f.parent.Generation; j.rulesFor != generation {
		if j.rules, err = rulesOf(f.parent, parent); err != nil {
			return nil, err
		}
		j.rulesFor, j.relations = generation, relations{}
		j.template = templateOf(f.parent, parent)
	}
	o := &compose.Observation{Parent: parent, Template: j.template, Observer: r.Observer(), PodIntegration: r.PodIntegration}
	for _, c := range f.children {
		if _, claimed := f.round.Claimed[plan.ChildKey{Kind: controller.Children[kindOf(c)-workloads], Namespace: c.Namespace, Name: c.Name}]; !claimed {
			continue
		}
		switch kindOf(c) {
		case workloads:
			err = add(&o.Workloads, c)
		case jobSets:
			err = add(&o.JobSets, c)
		case configMaps:
			var control *compose.ConfigMap
			if control, err = decoded[compose.ConfigMap](c); err == nil && hooks.IsControl(parent, control) {
				o.Control = control
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return o, r.relate(j, o)
}

// relations are the objects that the rules of a job select, as decisions read them,
// and as of which view of each kind: they are gathered anew once that has moved.
type relations struct {
	compose.Observation
	at [kindCount]int64
	// known says that the view was looked at.
	known [kindCount]bool
}

// relate adds the objects that the rules select.
func (r *Runner) relate(j *job, o *compose.Observation) (err error) {
	next := j.relations
	kept := &next.Observation
	for k := jobs; k < kindCount; k++ {
		if at := r.views[k].revision; next.known[k] && next.at[k] == at {
			continue
		}
		next.known[k], next.at[k] = true, r.views[k].revision
		switch objects := r.relatedOf(j, k); k {
		case jobs:
			kept.Jobs, err = all[compose.Job](objects)
		case pods:
			kept.LeaderPods, err = all[compose.Pod](objects)
		case localQueues:
			kept.LocalQueues, err = all[compose.LocalQueue](objects)
		case clusterQueues:
			kept.ClusterQueues, err = all[compose.ClusterQueue](objects)
		case resourceFlavors:
			kept.Flavors, err = all[compose.ResourceFlavor](objects)
		case priorityClasses:
			kept.PriorityClasses, err = all[compose.PriorityClass](objects)
		}
		if err != nil {
			return err
		}
	}
	j.relations = next
	o.Jobs, o.LeaderPods, o.LocalQueues = kept.Jobs, kept.LeaderPods, kept.LocalQueues
	o.ClusterQueues, o.Flavors, o.PriorityClasses = kept.ClusterQueues, kept.Flavors, kept.PriorityClasses
	return nil
}

// relatedOf finds the objects of a kind that the rules of a job select, in the order
// of their places. No two rules of RTJ's are of one kind.
func (r *Runner) relatedOf(j *job, k kind) (found []*apiserver.Object) {
	for _, rule := range j.rules {
		if rule.Kind.Resource != watched[k].Resource {
			continue
		}
		for _, o := range r.views[k].objects {
			if rule.MayMatch(planned(o)) {
				found = append(found, o)
			}
		}
	}
	return found
}

// adopted notes a child that is the parent's now.
func (f *flight) adopted(o *apiserver.Object) {
	f.children = append(f.children, o)
	slices.SortStableFunc(f.children, func(a, b *apiserver.Object) int {
		if d := kindOf(a) - kindOf(b); d != 0 {
			return int(d)
		}
		return compare([]*apiserver.Object{a}, []*apiserver.Object{b})
	})
}

var kindsByName = func() map[string]kind {
	m := map[string]kind{}
	for k := range watched {
		m[watched[k].Kind] = kind(k)
	}
	return m
}()

func kindOf(o *apiserver.Object) kind { return kindsByName[o.Kind] }

// copied is a map that is the caller's.
func copied(m any) map[string]any {
	of, _ := m.(map[string]any)
	if of == nil {
		return map[string]any{}
	}
	return maps.Clone(of)
}
