package trainer

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/jobs"
	"rtj.dev/rtj/test/world/store"
)

// Env is what the workers need of their world.
type Env struct {
	Now   func() time.Time
	Store *store.Store
	// Behave chooses the behaviour of an attempt when the first of its pods starts; nil
	// chooses the zero Behaviour.
	Behave func(Attempt) Behaviour
}

// Faults are what may happen to workers by itself.
type Faults struct {
	// Crashes: the processes of a pod end with code 1.
	Crashes bool
	// Hangs: a pod's main threads come to no further step.
	Hangs bool
	// LostAnswers: a PUT is done and its answer does not come.
	LostAnswers bool
	// TornSaves: the pods of an attempt are gone in the middle of a save, where its
	// parts are stored in one event.
	TornSaves bool
}

// Trainer is all workers. It is for one goroutine.
type Trainer struct {
	env Env
	// Offer says what may happen to workers by itself.
	Offer Faults

	// processes are those of a pod each, in the order in which they started.
	processes []process
	// ended are the newest of those that ended.
	ended []exit
	// gangs are the attempts of which processes run. What is in a slice of theirs is
	// never changed in place.
	gangs []gang
	// past are the attempts that are over. It is only added to.
	past   []Attempt
	begun  int
	unborn []projection
}

var _ jobs.Workers = (*Trainer)(nil)

// keptExits is how many ended processes are remembered: kubelets ask soon.
const keptExits = 256

type exit struct {
	uid  string
	code int32
}

// projection is what a control directory holds before its pod started.
type projection struct{ uid, control, notice string }

// process is what runs in one pod: its ranks are one here.
type process struct {
	uid  string
	gang int // of which it is
	env  *environment
	// asked is what the files ask for; terminated when SIGTERM came.
	control, notice *request
	terminated      time.Time
	readyAt         time.Time // zero: never
	hung            bool
}

func (p *process) leads() bool { return p.env.first == 0 }

// New returns a world's workers, of which none runs.
func New(env Env) *Trainer { return &Trainer{env: env} }

// Clone returns the same workers in another world.
func (t *Trainer) Clone(env Env) *Trainer {
	c := *t
	c.env = env
	c.processes = slices.Clone(t.processes)
	c.gangs = slices.Clone(t.gangs)
	c.ended = slices.Clip(t.ended)
	c.past = slices.Clip(t.past)
	c.unborn = slices.Clip(t.unborn)
	t.ended, t.past, t.unborn = c.ended, c.past, c.unborn
	return &c
}

// Start implements [jobs.Workers].
func (t *Trainer) Start(pod *apiserver.Object) {
	e := environmentOf(pod)
	if e == nil {
		// Nobody told it anything, so it does nothing until it is killed.
		e = &environment{podName: pod.Name, worldSize: 1, grace: 30 * time.Second, attempt: -1, name: pod.Name, namespace: pod.Namespace}
	}
	now := t.env.Now()
	p := process{uid: pod.UID, env: e, gang: t.join(e, now)}
	g := t.gang(p.gang)
	if ready := g.behaviour.ReadyTime; ready >= 0 {
		p.readyAt = now.Add(ready)
	}
	t.processes = append(t.processes, p)
	if at := slices.IndexFunc(t.unborn, func(u projection) bool { return u.uid == pod.UID }); at >= 0 {
		u := t.unborn[at]
		t.unborn = slices.Concat(t.unborn[:at], t.unborn[at+1:])
		t.Projected(u.uid, u.control, u.notice)
	}
	t.joined(g, now)
}

// Projected implements [jobs.Workers].
func (t *Trainer) Projected(podUID, control, notice string) {
	p := t.process(podUID)
	if p == nil {
		if !t.hasEnded(podUID) {
			t.unborn = slices.DeleteFunc(slices.Clone(t.unborn), func(u projection) bool { return u.uid == podUID })
			t.unborn = append(t.unborn[max(0, len(t.unborn)-keptExits):], projection{podUID, control, notice})
		}
		return
	}
	p.control, p.notice = readRequest(control, kindControl, p.env.attempt), readRequest(notice, kindNotice, p.env.attempt)
}

// Terminate implements [jobs.Workers].
func (t *Trainer) Terminate(podUID string) {
	if p := t.process(podUID); p != nil && p.terminated.IsZero() {
		p.terminated = t.env.Now()
	}
}

// Kill implements [jobs.Workers].
func (t *Trainer) Kill(podUID string) { t.exit(podUID, 137) }

// State implements [jobs.Workers].
func (t *Trainer) State(podUID string) (ready, exited bool, code int32) {
	if p := t.process(podUID); p != nil {
		return !p.readyAt.IsZero() && !t.env.Now().Before(p.readyAt), false, 0
	}
	for i := len(t.ended) - 1; i >= 0; i-- {
		if t.ended[i].uid == podUID {
			return false, true, t.ended[i].code
		}
	}
	return false, false, 0
}

// Runs tells whether a process of an attempt of that run runs.
func (t *Trainer) Runs(runID string, number int64) bool {
	return slices.ContainsFunc(t.gangs, func(g gang) bool { return g.RunID == runID && int64(g.Number) == number })
}

func (t *Trainer) hasEnded(podUID string) bool {
	return slices.ContainsFunc(t.ended, func(e exit) bool { return e.uid == podUID })
}

func (t *Trainer) process(podUID string) *process {
	for i := range t.processes {
		if t.processes[i].uid == podUID {
			return &t.processes[i]
		}
	}
	return nil
}

func (t *Trainer) gang(number int) *gang {
	for i := range t.gangs {
		if t.gangs[i].number == number {
			return &t.gangs[i]
		}
	}
	return nil
}

// exit ends the processes of a pod.
func (t *Trainer) exit(podUID string, code int32) {
	at := slices.IndexFunc(t.processes, func(p process) bool { return p.uid == podUID })
	if at < 0 {
		return
	}
	p := t.processes[at]
	t.processes = slices.Delete(t.processes, at, at+1)
	if len(t.ended) >= keptExits {
		t.ended = slices.Clone(t.ended[keptExits/2:])
	}
	t.ended = append(t.ended, exit{podUID, code})
	g := t.gang(p.gang)
	g.leave(&p, code, t.env.Now())
	if g.Running == 0 {
		g.EndedAt = t.env.Now()
		t.past = append(t.past, g.Attempt)
		t.gangs = slices.DeleteFunc(t.gangs, func(other gang) bool { return other.number == p.gang })
	}
}

// join returns the gang of an attempt whose rank is not there yet, a new one if none
// has room.
func (t *Trainer) join(e *environment, now time.Time) int {
	again := 0
	for i := range t.gangs {
		g := &t.gangs[i]
		if g.env.prefix != e.prefix || g.env.attempt != e.attempt || g.env.name != e.name || g.env.namespace != e.namespace {
			continue
		}
		if again++; g.env.attempt > 0 && !slices.Contains(g.firsts, e.first) && g.told == nil {
			g.firsts = append(slices.Clip(g.firsts), e.first)
			return g.number
		}
	}
	t.begun++
	g := newGang(t.begun, e, now)
	if again > 0 {
		g.label += "#" + strconv.Itoa(again+1)
	}
	t.judgeSelected(&g)
	if t.env.Behave != nil {
		g.behaviour = t.env.Behave(g.Attempt)
	}
	if e.attempt < 0 {
		g.behaviour = Behaviour{Plain: true}
	}
	g.behaves = fmt.Sprintf("%+v", g.behaviour)
	t.gangs = append(t.gangs, g)
	return g.number
}
