//go:build e2e

package differential

import (
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/jobs"
)

// podWalks is how many orders of events of the model are tried of each script.
const podWalks = 1500

// podAct is what may be seen from the beginning of a step until all is at rest.
type podAct struct {
	name string
	// states of each object, and which may be followed by which others in time.
	states map[string]map[string]bool
	order  map[[3]string]bool // object, earlier, later
	// rests are the pictures in which it may end.
	rests map[string]bool
}

// expect has the model play a script in many orders.
func expectPods(s podScript) []*podAct {
	podActs := make([]*podAct, len(s.steps))
	for i, step := range s.steps {
		podActs[i] = &podAct{step.name, map[string]map[string]bool{}, map[[3]string]bool{}, map[string]bool{}}
	}
	for seed := range uint64(podWalks) {
		newModelPods(seed, s.term).play(s, podActs)
	}
	for i, step := range s.steps {
		if !step.hasty || i == 0 {
			continue
		}
		// What came before may still show.
		for name, states := range podActs[i-1].states {
			for state := range states {
				podActs[i].see(name, state, nil)
			}
		}
		maps.Copy(podActs[i].order, podActs[i-1].order)
	}
	return podActs
}

// modelPods is the model of a cluster with one node, and of its workers.
type modelPods struct {
	now       time.Time
	random    *rand.Rand
	api       *apiserver.Server
	collector *apiserver.Collector
	cluster   *jobs.Cluster
	term      int
	pods      map[string]*modelPod // by UID
	started   []*modelPod
	// orders are codes with which pods are to end, by their names.
	orders map[string]int
	// weights of events in this walk.
	weights map[string]float64
	// past of each object since the podAct began, and the podAct.
	past   map[string][]string
	podAct *podAct
}

type modelPod struct {
	name string
	// listens: it hears SIGTERM from now on.
	listens, exited bool
	code            int
}

func newModelPods(seed uint64, term int) *modelPods {
	m := &modelPods{
		term: term,
		now:  time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), random: rand.New(rand.NewPCG(seed, 0)), pods: map[string]*modelPod{}, past: map[string][]string{},
		orders: map[string]int{}, weights: map[string]float64{},
	}
	clock := func() time.Time { return m.now }
	m.api = apiserver.New(clock)
	m.collector = apiserver.NewCollector(m.api)
	m.cluster = jobs.New(jobs.Env{API: m.api, Now: clock, Workers: m})
	for _, name := range []string{"node", "other"} {
		m.must(m.api.Create("test", object{"kind": "Node", "metadata": object{"name": name}}))
	}
	m.api.Trace = m.saw
	return m
}

func (m *modelPods) must(_ *apiserver.Object, err error) {
	if err != nil {
		panic(err)
	}
}

// play plays a script.
func (m *modelPods) play(s podScript, podActs []*podAct) {
	for i, step := range s.steps {
		m.podAct = podActs[i]
		if !step.hasty || i == 0 {
			m.past = map[string][]string{}
			for _, o := range m.objects() {
				name, state := podSeen(o.Body)
				m.past[name] = []string{state}
			}
		}
		step.do(m)
		hasty := i+1 < len(s.steps) && s.steps[i+1].hasty
		m.run(hasty)
		if !hasty {
			m.podAct.rests[m.picture().String()] = true
		}
	}
}

// run has events happen until nothing does any more, or for a moment.
func (m *modelPods) run(moment bool) {
	steps := -1
	if moment {
		steps = m.random.IntN(30)
	}
	for ; steps != 0; steps-- {
		var all []event.Event
		add := func(e event.Event) {
			if !e.Fault {
				all = append(all, e)
			}
		}
		m.cluster.Events(add)
		m.collector.Events(add)
		for _, p := range m.started {
			if !p.listens {
				add(event.Event{Name: "workers: listen " + p.name, Do: func() { p.listens = true }})
				continue
			}
			if code, ok := m.orders[p.name]; ok && !p.exited {
				add(event.Event{Name: "workers: end " + p.name, Do: func() {
					delete(m.orders, p.name)
					p.end(code)
				}})
			}
		}
		if len(all) > 0 {
			m.choose(all).Do()
			continue
		}
		next := m.cluster.Next()
		if next.IsZero() {
			return
		}
		m.now = next
	}
}

// choose draws an event. In each walk some of them are a hundred times as likely as
// others, so that one pod is far ahead of another.
func (m *modelPods) choose(all []event.Event) event.Event {
	var sum float64
	for _, e := range all {
		sum += m.weight(e.Name)
	}
	pick := m.random.Float64() * sum
	for _, e := range all {
		if pick -= m.weight(e.Name); pick < 0 {
			return e
		}
	}
	return all[len(all)-1]
}

func (m *modelPods) weight(name string) float64 {
	weight, ok := m.weights[name]
	if !ok {
		weight = []float64{0.01, 0.1, 1, 1}[m.random.IntN(4)]
		m.weights[name] = weight
	}
	return weight
}

func (m *modelPods) objects() (all []*apiserver.Object) {
	for _, kind := range []string{"JobSet", "Job", "Pod"} {
		all = append(all, m.api.List(kind)...)
	}
	return all
}

func (m *modelPods) picture() picture {
	p := picture{}
	for _, o := range m.objects() {
		_, state := podSeen(o.Body)
		p[o.Kind+" "+o.Name] = state
	}
	return p
}

// saw notes what a write shows.
func (m *modelPods) saw(w apiserver.Write) {
	o := w.New
	if o == nil {
		o = w.Old
	}
	if o.Kind != "JobSet" && o.Kind != "Job" && o.Kind != "Pod" || m.podAct == nil {
		return
	}
	name, state := podSeen(o.Body)
	if w.New == nil {
		state = gone
	}
	m.podAct.see(name, state, m.past[name])
	m.past[name] = append(m.past[name], state)
}

func (a *podAct) see(name, state string, past []string) {
	if a.states[name] == nil {
		a.states[name] = map[string]bool{}
	}
	a.states[name][state] = true
	for _, earlier := range past {
		a.states[name][earlier] = true
		a.order[[3]string{name, earlier, state}] = true
	}
}

// The script's podActs.

func (m *modelPods) create(o object) {
	meta := maps.Clone(o["metadata"].(object))
	meta["namespace"] = "team"
	o["metadata"] = meta
	m.must(m.api.Create("test", o))
}

func (m *modelPods) suspend(is bool) {
	m.must(m.api.Patch("test", "JobSet", "team", jobSetName, object{"spec": object{"suspend": is}}, ""))
}

// find returns the newest pod of a name that is not being deleted.
func (m *modelPods) find(name string) *apiserver.Object {
	var newest *apiserver.Object
	for _, o := range m.api.List("Pod") {
		if strings.HasPrefix(o.Name, name+"-") && !o.Deleting() && (newest == nil || o.Version > newest.Version) {
			newest = o
		}
	}
	return newest
}

func (m *modelPods) exit(pod string, code int) { m.orders[pod] = code }

func (m *modelPods) deletePod(pod string, force bool) {
	grace := int64(-1)
	if force {
		grace = 0
	}
	if err := m.cluster.DeletePod("team", m.find(pod).Name, grace); err != nil {
		panic(err)
	}
}

func (m *modelPods) evictPod(pod string) {
	if err := m.cluster.Evict("team", m.find(pod).Name); err != nil {
		panic(err)
	}
}

func (m *modelPods) delete(kind, name string, foreground bool) {
	how := apiserver.Background
	if foreground {
		how = apiserver.Foreground
	}
	m.must(nil, m.api.Delete("test", kind, "team", name, apiserver.Deletion{Propagation: how}))
}

func (m *modelPods) loseNode()   { m.must(nil, m.cluster.LoseNode("node")) }
func (m *modelPods) returnNode() { m.must(nil, m.cluster.ReturnNode("node")) }

// Workers.

func (m *modelPods) pod(uid string) *modelPod {
	if m.pods[uid] == nil {
		m.pods[uid] = &modelPod{}
	}
	return m.pods[uid]
}

func (p *modelPod) end(code int) {
	if !p.exited {
		p.exited, p.code = true, code
	}
}

func (m *modelPods) Start(pod *apiserver.Object) {
	p := m.pod(pod.UID)
	p.name = randomEnd.ReplaceAllString(pod.Name, "$1")
	m.started = append(m.started, p)
}

func (m *modelPods) Projected(_ string, _, _ string) {}
func (m *modelPods) Kill(uid string)                 { m.pod(uid).end(137) }
func (m *modelPods) Terminate(uid string) {
	if p := m.pod(uid); m.term != staying && p.listens {
		p.end(m.term)
	}
}

func (m *modelPods) State(uid string) (ready, exited bool, code int32) {
	p := m.pods[uid]
	if p == nil {
		return false, false, 0
	}
	return !p.exited, p.exited, int32(p.code)
}
