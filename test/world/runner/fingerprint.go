package runner

import (
	"encoding/json"
	"maps"
	"slices"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/edge"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/store"
)

// Hash takes up the state of a world; equal worlds take up the same.
type Hash interface {
	store.Hash
	// Object takes up a version of an object.
	Object(*apiserver.Object)
}

// meaning is what a snapshot says, once it was asked for.
type meaning struct {
	of   *checkpoint.Snapshot
	text string
}

// Fingerprint takes up what decides the instance's future.
func (r *Runner) Fingerprint(h Hash) {
	h.Bool(r.down)
	h.Int(int64(r.starts)) // the name of the observer stands in status
	h.Int(int64(len(r.late)))
	for i := range r.late {
		h.Text(r.late[i].name)
		takeJSON(h, r.late[i].what)
	}
	if r.down {
		return
	}
	for k := range r.views {
		r.takeView(h, kind(k))
	}
	h.Int(int64(len(r.jobs)))
	for _, j := range r.jobs {
		j.take(h)
	}
	for _, uid := range slices.Sorted(maps.Keys(r.edges)) {
		h.JSON(string(uid))
		r.edges[uid].take(h)
	}
	h.Int(int64(len(r.readings)))
	for _, of := range r.readings {
		h.JSON(string(of.uid))
		h.Time(of.Begun)
		h.Int(int64(of.steps))
		if of.steps > 0 {
			h.Int(of.revision) // what was read so far
		}
	}
	r.reader.Fingerprint(h, r.prefixes()...)
	for _, p := range r.patching {
		r.takePatching(h, p)
	}
	for _, text := range r.made.Lately(r.Now()) {
		h.JSON(text)
	}
}

// prefixes are where the runs of the jobs are that are seen.
func (r *Runner) prefixes() (list []string) {
	for _, o := range r.views[parents].objects {
		if parent, err := decodedParent(o); err == nil {
			run := edge.PlaceOf(parent).Run(nil)
			list = append(list, store.RunPrefix(run.Location.URI, run.Namespace, run.Name, run.RunID))
		}
	}
	return list
}

// takeView takes up the objects that are seen, if they are not the newest.
func (r *Runner) takeView(h Hash, k kind) {
	v := &r.views[k]
	current := v.revision >= r.API.Changed(k.name())
	if h.Bool(current); current {
		return
	}
	h.Int(int64(len(v.objects)))
	for _, o := range v.objects {
		h.Object(o)
	}
	// What follows can still be seen state by state.
	between := r.API.Changes(k.name(), v.revision)
	h.Int(int64(len(between)))
	for _, revision := range between[:len(between)-1] {
		for _, o := range r.API.View(k.name(), revision) {
			h.Object(o)
		}
	}
}

func (j *job) take(h Hash) {
	h.Text(j.String())
	h.Bool(j.queued)
	h.Time(j.alarm)
	h.Int(j.rulesFor)
	takeJSON(h, j.memory)
	f := j.flight
	if h.Bool(f != nil); f == nil {
		return
	}
	h.Time(f.began)
	h.Int(int64(f.stage))
	h.Bool(f.oneAfterTheOther)
	takeJSON(h, f.round)
	takeJSON(h, f.pending)
	takeJSON(h, f.waves)
	for _, err := range f.faults {
		h.JSON(err.Error())
	}
	h.Object(f.parent)
	for _, o := range f.children {
		h.Object(o)
	}
	if h.Bool(f.answering != nil); f.answering != nil {
		h.Time(f.patience)
		takeJSON(h, f.answering.Decision)
		takeObservation(h, f.answering.Observation)
	}
}

// takeObservation takes up what a decision that is made again rests on; parent and
// children are taken up with the sync.
func takeObservation(h Hash, o *compose.Observation) {
	h.Time(o.Now)
	each := func(of *compose.Object) { h.JSON(string(of.Raw)) }
	for i := range o.Jobs {
		each(&o.Jobs[i].Object)
	}
	for i := range o.LeaderPods {
		each(&o.LeaderPods[i].Object)
	}
	for i := range o.LocalQueues {
		each(&o.LocalQueues[i].Object)
	}
	for i := range o.ClusterQueues {
		each(&o.ClusterQueues[i].Object)
	}
	for i := range o.Flavors {
		each(&o.Flavors[i].Object)
	}
	for i := range o.PriorityClasses {
		each(&o.PriorityClasses[i].Object)
	}
}

func (m *edgeMemory) take(h Hash) {
	takeJSON(h, &m.Memory)
	snapshot := m.Snapshot()
	if h.Bool(snapshot != nil); snapshot == nil {
		return
	}
	if m.told.of != snapshot {
		m.told = meaning{snapshot, store.Plain(textOf(snapshot))}
	}
	h.JSON(m.told.text)
}

func (r *Runner) takePatching(h Hash, p *patching) {
	h.JSON(string(p.UID))
	h.Bool(p.waits)
	takeJSON(h, p.next)
	takeJSON(h, p.round)
	if h.Bool(p.busy); p.busy {
		takeJSON(h, p.making.Patch)
		h.Text(string(p.making.Next()))
	} else {
		h.Time(p.until)
	}
	h.Text(string(p.worst))
	takeJSON(h, p.pace)
}

// takeJSON takes up a value by its JSON.
func takeJSON(h Hash, value any) { h.JSON(store.Plain(textOf(value))) }

func textOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // JSON values, and what has a JSON form
	}
	return string(text)
}
