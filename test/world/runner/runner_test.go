package runner_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/runner"
	"rtj.dev/rtj/test/world/store"
)

var lagging = runner.Options{Name: "rtj-0", Lag: true, SlowReads: true, Faults: true}

// From the first sync to pods that run, and through a pause to none, with every sync
// through the messages of the hooks too.
func TestAJobRunsAndIsPaused(t *testing.T) {
	r := newRig(t, runner.Options{Name: "rtj-0"})
	r.apply("llama")
	r.settle(time.Minute)
	if got := r.phase("llama"); got != "Running" {
		t.Fatalf("phase %s", got)
	}
	r.spec("llama", "suspend", true)
	r.settle(20 * time.Minute)
	if got := r.phase("llama"); got != "Paused" {
		t.Fatalf("phase %s", got)
	}
	for _, p := range r.api.List("Pod") {
		if phase := p.Text("status", "phase"); phase != "Succeeded" && phase != "Failed" {
			t.Errorf("%s is %s", p, phase)
		}
	}
}

// Whatever order things come in and whatever fails, the messages of the hooks lead
// to the same plans, and once nothing fails any more the job runs.
func TestSyncsAreTheSameThroughMessages(t *testing.T) {
	for seed := range uint64(4) {
		second := lagging
		second.Name = "rtj-1"
		r := newRig(t, lagging, second)
		r.apply("llama")
		r.wander(rand.New(rand.NewPCG(seed, 0)), 600)
		r.spec("llama", "suspend", true)
		r.wander(rand.New(rand.NewPCG(seed, 1)), 300)
		r.spec("llama", "suspend", false)
		r.json = func() bool { return false }
		// One is left. Two for ever would write over each other's StoreReachable for as
		// long as they know different things of the store.
		r.runners = r.runners[:1]
		r.settle(time.Hour)
		if got := r.phase("llama"); got != "Running" {
			t.Errorf("seed %d: phase %s", seed, got)
		}
	}
}

// The same choices lead to the same world, in a clone too, and a clone leaves the
// original alone.
func TestWorldsAreReplayedAndCloned(t *testing.T) {
	for seed := range uint64(3) {
		run := func() *rig {
			r := newRig(t, lagging)
			r.json = func() bool { return false }
			r.apply("llama")
			r.apply("mistral")
			r.wander(rand.New(rand.NewPCG(seed, 0)), 250)
			return r
		}
		a, b := run(), run()
		if a.told() != b.told() {
			t.Fatalf("seed %d: two runs differ", seed)
		}
		before := a.told()
		c := a.clone()
		c.wander(rand.New(rand.NewPCG(seed, 1)), 150)
		if a.told() != before {
			t.Fatalf("seed %d: the clone changed the original", seed)
		}
		a.wander(rand.New(rand.NewPCG(seed, 1)), 150)
		if a.told() != c.told() {
			t.Errorf("seed %d: original and clone go different ways", seed)
		}
	}
}

// A view shows an earlier state until it is moved, and skips what was in between.
func TestViewsLag(t *testing.T) {
	r := newRig(t, lagging)
	if r.offers("rtj-0: sync team/llama") {
		t.Fatal("a sync of a job that does not exist")
	}
	o := r.apply("llama")
	if r.offers("rtj-0: sync team/llama") {
		t.Fatal("a sync of a job that was not seen")
	}
	r.spec("llama", "startup", object{"deadline": "20m"})
	r.do("rtj-0: sees a change of ResumableTrainingJob")
	if got := r.runners[0].Seen("ResumableTrainingJob"); got != o.Version {
		t.Errorf("sees %d, want %d", got, o.Version)
	}
	r.do("rtj-0: sync team/llama")
	// It is decided upon the older state, whose first write therefore comes too late.
	r.do("rtj-0: finalizer ResumableTrainingJob team/llama")
	if got := r.api.Get("ResumableTrainingJob", "team", "llama").Finalizers(); len(got) > 0 {
		t.Errorf("finalizers %v", got)
	}
	r.do("rtj-0: sees ResumableTrainingJob", "rtj-0: sync team/llama", "rtj-0: finalizer ResumableTrainingJob team/llama")
	if got := r.api.Get("ResumableTrainingJob", "team", "llama").Finalizers(); len(got) != 1 {
		t.Errorf("finalizers %v", got)
	}
}

// After its own write an instance waits until it sees it, but not for ever.
func TestOwnWritesAreWaitedFor(t *testing.T) {
	r := newRig(t, lagging)
	r.apply("llama")
	r.do("rtj-0: sees ResumableTrainingJob", "rtj-0: sync team/llama", "rtj-0: finalizer ResumableTrainingJob team/llama")
	r.do("rtj-0: reads the store for team/llama")
	r.do("rtj-0: create Workload team/llama-w1", "rtj-0: status ResumableTrainingJob team/llama")
	r.runners[0].Enqueue("team", "llama")
	if r.offers("rtj-0: sync team/llama") {
		t.Error("a sync before the writes are seen")
	}
	if next := r.runners[0].Next(); next.Sub(r.now) != 5*time.Second {
		t.Errorf("next in %s", next.Sub(r.now))
	}
	r.now = r.now.Add(5 * time.Second)
	if !r.offers("rtj-0: sync team/llama") {
		t.Error("no sync although the watch is broken")
	}
	// The Workload is not seen and created again, which the API server refuses.
	r.do("rtj-0: sync team/llama")
	r.settle(0)
	if n := len(r.api.List("Workload")); n != 1 {
		t.Errorf("%d Workloads", n)
	}
}

// What becomes of a request is not what the client hears of it.
func TestFatesOfAWrite(t *testing.T) {
	const create = "rtj-0: create Workload team/llama-w1"
	for fate, done := range map[string]bool{
		"": true, " is refused": false, " is done, the answer is lost": true, " is delivered twice": true, " is late": false,
	} {
		t.Run(strings.TrimSpace(fate), func(t *testing.T) {
			r := newRig(t, lagging)
			r.apply("llama")
			r.until(create, time.Second)
			r.do(create + fate)
			if got := r.api.Get("Workload", "team", "llama-w1") != nil; got != done {
				t.Errorf("done is %v", got)
			}
			if fate == " is late" {
				r.do("rtj-0: crashes") // the request outlives the process
				r.do(create + " arrives")
				if r.api.Get("Workload", "team", "llama-w1") == nil {
					t.Error("it never arrived")
				}
			}
			r.settle(10 * time.Minute)
			if n := len(r.api.List("Workload")); n != 1 || r.phase("llama") != "Running" {
				t.Errorf("%d Workloads, phase %s", n, r.phase("llama"))
			}
		})
	}
}

// A crash loses what was decided and not yet sent; the next start decides anew.
func TestACrashBetweenTwoWrites(t *testing.T) {
	r := newRig(t, lagging)
	r.apply("llama")
	r.until("rtj-0: create Workload team/llama-w1", time.Second)
	was := r.runners[0].Observer()
	r.do("rtj-0: create Workload team/llama-w1", "rtj-0: crashes")
	if r.offers("rtj-0: status ResumableTrainingJob team/llama") || r.runners[0].Running() {
		t.Error("it writes after its end")
	}
	r.do("rtj-0: starts")
	if is := r.runners[0].Observer(); is == was {
		t.Errorf("%s twice", is)
	}
	r.settle(10 * time.Minute)
	if r.phase("llama") != "Running" {
		t.Errorf("phase %s", r.phase("llama"))
	}
}

// An answer waits two seconds for the store; then it is given without, and the end
// of the reading causes the next.
func TestAnAnswerDoesNotWaitForASlowStore(t *testing.T) {
	r := newRig(t, lagging)
	r.apply("llama")
	r.until("rtj-0: reads the store for team/llama", time.Second)
	answers := r.runners[0].Syncs()
	if next := r.runners[0].Next(); next.Sub(r.now) != 2*time.Second {
		t.Fatalf("next in %s", next.Sub(r.now))
	}
	r.now = r.now.Add(2 * time.Second)
	r.events()
	if got := r.runners[0].Syncs() - answers; got != 1 {
		t.Fatalf("%d answers", got)
	}
	if catalogs := r.decisions[len(r.decisions)-1].Catalog; catalogs.NotBefore.IsZero() {
		t.Errorf("the answer no longer wants a reading: %v", catalogs)
	}
	r.settleBut("rtj-0: reads the store for team/llama", "rtj-0: reads on for team/llama")
	answers = r.runners[0].Syncs()
	r.do("rtj-0: reads the store for team/llama")
	r.settleBut()
	if r.runners[0].Syncs() == answers {
		t.Error("the end of the reading caused no sync")
	}
}

// An outage of the store is part of what is read.
func TestAStoreThatIsDownIsSeen(t *testing.T) {
	r := newRig(t, runner.Options{Name: "rtj-0"})
	r.store.Down(store.Outage)
	r.apply("llama")
	r.settle(time.Minute)
	if got := r.phase("llama"); got == "Running" {
		t.Errorf("phase %s without a store", got)
	}
	r.store.Up()
	r.settle(30 * time.Minute)
	if got := r.phase("llama"); got != "Running" {
		t.Errorf("phase %s", got)
	}
}

// Quota is given back only once no pod is left, by a live list.
func TestTheLISTIsLive(t *testing.T) {
	r := newRig(t, lagging)
	r.apply("llama")
	r.settle(time.Minute)
	left, err := r.api.Create("test", object{"kind": "Pod", "metadata": object{
		"name": "zombie", "namespace": "team", "labels": object{"training.rtj.dev/uid": r.api.Get("ResumableTrainingJob", "team", "llama").UID},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.spec("llama", "suspend", true)
	look := "rtj-0: look before release team/llama"
	r.until(look, time.Hour)
	r.do(look)
	if r.offers("rtj-0: patch release team/llama-w1") {
		t.Fatal("released while a pod is left")
	}
	if err := r.api.Delete("test", "Pod", "team", left.Name, apiserver.Deletion{}); err != nil {
		t.Fatal(err)
	}
	r.until(look, time.Minute)
	r.do(look)
	if !r.offers("rtj-0: patch release team/llama-w1") {
		t.Fatal("not released although no pod is left")
	}
}

// Decisions are told with what they were made upon.
func TestTrace(t *testing.T) {
	r := newRig(t, runner.Options{Name: "rtj-0"})
	var told []string
	env := r.env()
	env.Trace = func(by string, o *compose.Observation, d *compose.Decision) {
		told = append(told, by+" "+o.Parent.Name+" "+string(d.Status.Phase))
	}
	r.runners[0] = runner.New(env, runner.Options{Name: "rtj-7"})
	r.apply("llama")
	r.settle(time.Second)
	if len(told) == 0 || told[0] != "rtj-7 llama Pending" {
		t.Errorf("told %q", told)
	}
}
