package world

import (
	"maps"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/trainer"
)

// promise is something that rtj promises to its users, whatever happens.
type promise struct {
	name string
	// written judges a write to the API server that concerns a job.
	written func(*World, *life, apiserver.Write) string
	// begun judges an attempt whose first worker started.
	begun func(*World, *life, *trainer.Attempt) string
	// always holds for a job after every event.
	always func(*World, *life) string
	// waited judges a job when time passed in which all waited for nothing else.
	waited func(*World, *life, time.Duration) string
	// settled holds for a job once the faults have stopped and the world is at rest.
	settled func(*World, *life) string
}

// The promises. Each function returns what is wrong, or nothing.
var kept = []promise{
	{name: "never two live runtimes of one job, but for those given up after a forced drain", always: oneRuntime},
	{name: "an attempt is launched only by a claim of the reservation that stands", written: launchedByClaim},
	{name: "an attempt is never launched beyond what was admitted", written: launchedAsAdmitted},
	{name: "an attempt resumes only from a complete and compatible checkpoint of its own run that is not quarantined", begun: resumesFromGood},
	{name: "a yield that the workers serve loses no step, a crash only those since the last commit", begun: resumesFromNewest},
	{name: "checkpoints are never deleted", settled: checkpointsStay},
	{name: "quota is given back only when no pod is left", written: releasedEmpty},
	{name: "quota is given back soon after the last pod of an attempt that was stopped", waited: releasedSoon},
	{name: "preemption never spends the failure budget", written: preemptionIsFree},
	{name: "attempt numbers never repeat", written: numbersAreNew},
	{name: "numbers in status never go down", written: numbersGoUp},
	{name: "a terminal phase is never left", written: terminalStays},
	{name: "a job that ended for good makes nothing new", written: terminalMakesNothing},
	{name: "status stays below its bound", written: statusIsSmall},
	{name: "the ledger adds up to the time that passed", written: ledgerAddsUp},
	{name: "the ledger has all the time in which workers run", written: ledgerHasAllRuns},
	{name: "attempts that leave the ledger are in its totals", written: totalsTakeOver},
	{name: "every drain ends", settled: nothingDrains},
	{name: "at rest no quota is held for nothing", settled: quotaIsUsed},
	{name: "at rest nothing runs that should not", settled: nothingRuns},
	{name: "what is deleted is gone", settled: deletedIsGone},
	{name: "the job ends as its spec asks", settled: asAsked},
}

// What is promised beside these is seen where it breaks.
const (
	// nothingPanics: no event does.
	nothingPanics = "nothing panics"
	// settles: once faults stop, every job comes to the end that it can.
	settles = "once faults stop, the world settles"
	// sameAsMessages: a hook that is called by its message answers as the core decides.
	sameAsMessages = "messages of the hooks change nothing"
	// clonesAgree is the simulation's own: what may happen in a world may in its clone.
	clonesAgree = "clones offer the same events"
)

// promises watch over a world.
type promises struct {
	lives map[string]*life // by the job's UID
	order []string
	// pods is the revision of pods that was looked at last.
	pods int64
	// started are the attempts of which workers were seen to start, over how many of them
	// had ended.
	started map[start]bool
	over    int
}

// life is one job from its creation to its end.
type life struct {
	uid, name string
	// launched are the JobSets by UID that were started, by attempt.
	launched map[int64]string
	// launchedAt is when, and launchedBy which processes of rtj ran then.
	launchedAt map[int64]time.Time
	launchedBy map[int64][]string
	// rolledBack and restoreFailed: somebody asked for another checkpoint, or one could
	// not be restored.
	rolledBack, restoreFailed bool
	// spare is the reservation that no attempt uses any more, and spareFor how long.
	spare    spare
	spareFor time.Duration
	// job is the newest version of the job; the last one, once it is gone.
	job  *apiserver.Object
	gone bool
}

func newPromises() *promises { return &promises{lives: map[string]*life{}, started: map[start]bool{}} }

func (p *promises) clone() *promises {
	c := &promises{lives: make(map[string]*life, len(p.lives)), order: append([]string(nil), p.order...), pods: p.pods, started: maps.Clone(p.started), over: p.over}
	for uid, l := range p.lives {
		copied := *l
		copied.launched, copied.launchedAt, copied.launchedBy = maps.Clone(l.launched), maps.Clone(l.launchedAt), maps.Clone(l.launchedBy)
		c.lives[uid] = &copied
	}
	return c
}

// wrote is told of every write.
func (p *promises) wrote(w *World, write apiserver.Write) {
	o := write.New
	if o == nil {
		o = write.Old
	}
	l := p.lifeOf(o, write.New != nil)
	if l == nil {
		return
	}
	if o.Kind == "Workload" && write.New == nil && !byUs(write.By) {
		w.deletedByOthers[l.uid] = true
	}
	judge(w, l, func(k *promise) string {
		if k.written == nil {
			return ""
		}
		return k.written(w, l, write)
	})
	if o.Kind == jobKind {
		l.job, l.gone = o, write.New == nil
		l.rolledBack = l.rolledBack || o.Text("spec", "resume", "from") != ""
		l.restoreFailed = l.restoreFailed || o.At("status", "restoreFailures") != nil
	}
}

// lifeOf returns whose life an object belongs to; nil: none.
func (p *promises) lifeOf(o *apiserver.Object, exists bool) *life {
	uid := o.Owner()
	switch o.Kind {
	case jobKind:
		if uid = o.UID; p.lives[uid] == nil && exists {
			p.lives[uid] = &life{uid: uid, name: o.Name, launched: map[int64]string{}, launchedAt: map[int64]time.Time{}, launchedBy: map[int64][]string{}, job: o}
			p.order = append(p.order, uid)
		}
	case "Workload", "JobSet", "ConfigMap":
	case "Pod":
		uid = o.Label(labelUID)
	default:
		return nil
	}
	return p.lives[uid]
}

// look is called after every event.
func (p *promises) look(w *World) {
	for _, a := range p.begun(w) {
		l := p.lives[a.RunID]
		if l == nil {
			continue
		}
		judge(w, l, func(k *promise) string {
			if k.begun == nil {
				return ""
			}
			return k.begun(w, l, &a)
		})
	}
	for _, uid := range p.order {
		l := p.lives[uid]
		judge(w, l, func(k *promise) string {
			if k.always == nil {
				return ""
			}
			return k.always(w, l)
		})
	}
	p.pods = w.api.Changed("Pod")
}

// waited is called when time passed in which nothing else could have happened.
func (p *promises) waited(w *World, d time.Duration) {
	for _, uid := range p.order {
		l := p.lives[uid]
		judge(w, l, func(k *promise) string {
			if k.waited == nil {
				return ""
			}
			return k.waited(w, l, d)
		})
	}
}

// settled is called when the world is at rest.
func (p *promises) settled(w *World) {
	for _, uid := range p.order {
		l := p.lives[uid]
		judge(w, l, func(k *promise) string {
			if k.settled == nil {
				return ""
			}
			return k.settled(w, l)
		})
	}
}

// judge asks each promise about a job; wrong returns what is, if anything.
func judge(w *World, l *life, wrong func(*promise) string) {
	for i := range kept {
		if what := wrong(&kept[i]); what != "" {
			w.fail(kept[i].name, l.name+": "+what)
		}
	}
}
