package runner

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/edge"
	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/store"
)

// Hash takes up the state of a world; equal worlds take up the same.
type Hash interface {
	store.Hash
	// Object takes up a version of an object.
	Object(*apiserver.Object)
	// Place is where an object is among those that exist, by its UID.
	Place(uid string) int
	// Over tells whether a job has ended for good, so that nothing is done about it.
	Over(uid string) bool
	// Newest tells whether a version is the newest of an object.
	Newest(version string) bool
}

// meaning is what a snapshot says, once it was asked for.
type meaning struct {
	of   *checkpoint.Snapshot
	text string
}

// readingCounts is how long it matters when a reading was made: by then another one is
// due, whatever it is for.
const readingCounts = 95 * time.Second

// Fingerprint takes up what decides the instance's future.
func (r *Runner) Fingerprint(h Hash) {
	h.Bool(r.down)
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
		if j.flight != nil || !h.Over(string(j.memory.UID)) {
			j.take(h)
		} else {
			h.Bool(j.queued)
			h.Time(j.alarm)
		}
	}
	for _, uid := range slices.SortedFunc(maps.Keys(r.edges), func(a, b types.UID) int { return byPlace(h, string(a), string(b)) }) {
		if h.Over(string(uid)) {
			continue
		}
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
	r.reader.Fingerprint(h, r.prefixes(h)...)
	for _, p := range r.patching {
		r.takePatching(h, p)
	}
	takeMade(h, r.made.Lately(r.Now()))
}

// takeMade takes up the patches that count as made lately. One of a version that is
// not the newest any more will not be wanted again.
func takeMade(h Hash, lately []string) {
	lately = slices.DeleteFunc(lately, func(text string) bool {
		_, version, _ := strings.Cut(text, `resourceVersion":"`)
		version, _, _ = strings.Cut(version, " ")
		return version != "" && !h.Newest(version)
	})
	slices.SortStableFunc(lately, func(a, b string) int {
		a, _, _ = strings.Cut(a, " ")
		b, _, _ = strings.Cut(b, " ")
		return byPlace(h, a, b)
	})
	for _, text := range lately {
		h.JSON(text)
	}
}

// byPlace orders UIDs in the same way in worlds that are alike.
func byPlace(h Hash, a, b string) int {
	return cmp.Or(h.Place(a)-h.Place(b), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// takeMemory takes up what the applier remembers of a job.
func takeMemory(h Hash, m *plan.Memory) {
	var state map[string]json.RawMessage
	type record struct {
		UID  string `json:"uid"`
		text json.RawMessage
	}
	var records []record
	var raw []json.RawMessage
	if json.Unmarshal([]byte(textOf(m)), &state) != nil || json.Unmarshal(state["records"], &raw) != nil || json.Unmarshal(state["records"], &records) != nil {
		panic("the applier's memory has another form")
	}
	for i := range raw {
		records[i].text = raw[i]
	}
	delete(state, "records")
	takeJSON(h, state)
	slices.SortFunc(records, func(a, b record) int { return byPlace(h, a.UID, b.UID) })
	for _, r := range records {
		h.JSON(string(r.text))
	}
}

// prefixes are where the runs of the jobs are that are seen and not over.
func (r *Runner) prefixes(h Hash) (list []string) {
	for _, o := range r.views[parents].objects {
		if h.Over(o.UID) {
			continue
		}
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
	takeMemory(h, j.memory)
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
	h.Told(m.told.text)
	h.Age(snapshot.ListedAt, readingCounts, "store")
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
