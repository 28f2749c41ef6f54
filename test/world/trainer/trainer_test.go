package trainer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/store"
)

// Every write in its order: start, parts of each rank with its index last, manifest,
// result, and only then the exits.
func TestATrainingFromItsBeginningToItsEnd(t *testing.T) {
	r := newRig(t, Behaviour{Total: 1})
	r.start(1, "")
	r.do("writes its start record", "makes step 1", "finishes")
	for part := range 4 {
		r.do(fmt.Sprintf("stores part %d of step 1", part))
		if s := r.read(); len(s.Manifests) != 0 {
			t.Fatal("committed with", part+1, "parts")
		}
	}
	r.do("commits step 1")
	id := r.selected()
	m := r.read().Manifests[0]
	if m.ID != id || m.Attempt != 1 || m.Step != 1 || m.WorldSize != 2 || m.Incomplete != "" || m.YieldID != 0 || m.Identity["codeVersion"] != "v7" {
		t.Errorf("%+v", m)
	}
	if r.offered("exits") {
		t.Error("a rank may leave before the result is written")
	}
	r.do("writes its result: finished", "a-1-w-1 exits 0", "reports progress", "a-1-w-0 exits 0")
	records := r.read().Attempts[1]
	if records.Start.Restore != nil || records.Result.Outcome != "finished" || records.Result.Checkpoint != id || records.Progress.Activity != "leaving" {
		t.Errorf("%+v", records)
	}
	if a := r.last(); r.codes(1) != [2]int32{0, 0} || a.Running != 0 || !a.Recorded || a.Lost() != 0 || a.Outcome != "finished" {
		t.Errorf("%v %+v", r.codes(1), a)
	}
}

// A yield loses no step: the ranks agree on the largest step plus one.
func TestAYield(t *testing.T) {
	for _, bare := range []bool{false, true} {
		r := newRig(t, Behaviour{Total: 9, SaveEvery: 100, Bare: bare})
		r.start(1, "")
		r.do("writes its start record", "makes step 1", "makes step 2")
		r.ask(1, time.Minute)
		r.do("hears of the yield", "reports progress")
		if p := r.read().Attempts[1].Progress; p.Yield == nil || p.Yield.ID != 1 || p.Yield.AcknowledgedAt == nil || p.Yield.AgreedStep != nil || p.Step != 2 {
			t.Errorf("%+v", p)
		}
		if !r.last().Acknowledged {
			t.Error("acknowledged")
		}
		r.do("agrees", "makes step 3")
		if r.offered("makes step") {
			t.Error("a step beyond the one that they agreed on")
		}
		r.work(r.ended)
		want := [2]int32{75, 75}
		if bare {
			want = [2]int32{0, 0}
		}
		a, result := r.last(), r.read().Attempts[1].Result
		if r.codes(1) != want || a.Outcome != "yielded" || a.Lost() != 0 || a.Asked != "Preempted" || a.Agreed != 3 || !a.Commits[0].ForYield {
			t.Errorf("%v %+v", r.codes(1), a)
		}
		if result.Outcome != "yielded" || result.Step != 3 || result.LostSteps != 0 || result.Checkpoint != r.selected() || r.read().Manifests[0].YieldID != 1 {
			t.Errorf("%+v", result)
		}
		r.start(2, r.selected())
		r.do("a-2 writes its start record", "a-2 restores", "makes step 4")
		if a := r.last(); !a.Restored || a.Base() != 3 || a.Selected.Problem != "" || a.Selected.WorldSize != 2 {
			t.Errorf("%+v", a)
		}
	}
}

// The notice says the same as the control document, and of another attempt neither
// asks for anything.
func TestWhoIsAsked(t *testing.T) {
	r := newRig(t, Behaviour{})
	r.start(2, "")
	notice := func(attempt int32) string {
		return fmt.Sprintf(`{"schemaVersion":"1.0","kind":"Notice","attempt":%d,"counter":1,"yield":{"id":%d,"cause":"Paused","issuedAt":"2026-03-01T12:00:00Z","durationSeconds":30}}`, attempt, attempt)
	}
	r.Projected(uid(2, 0), "", notice(1))
	if r.offered("hears") {
		t.Error("asked was attempt 1")
	}
	r.Projected(uid(2, 1), "", notice(2))
	r.do("hears of the yield")
	if r.offered("hears") {
		t.Error("heard twice")
	}
	r.Projected(uid(2, 0), "", notice(2))
	if r.offered("hears") {
		t.Error("they know")
	}
	// A pod that starts later finds the request.
	r.Projected(uid(3, 0), strings.ReplaceAll(notice(3), `"issuedAt"`, `"deadline":"2026-03-01T12:00:10Z","issuedAt"`), "")
	r.Start(pod(3, 0, ""))
	if r.offered("a-3 hears") {
		t.Error("a notice is no control document")
	}
	r.Projected(uid(4, 0), "", notice(4))
	r.Start(pod(4, 0, ""))
	if !r.offered("a-4 hears") {
		t.Error("what was there before the start is heard")
	}
}

// SIGTERM alone is a yield too: its time is the grace period.
func TestSIGTERM(t *testing.T) {
	r := newRig(t, Behaviour{SaveEvery: 100})
	r.start(1, "")
	r.do("writes its start record", "makes step 1")
	r.Terminate(uid(1, 1))
	r.work(r.ended)
	if a := r.last(); a.Asked != terminated || a.Outcome != "yielded" || a.Lost() != 0 || r.codes(1) != [2]int32{75, 75} {
		t.Errorf("%+v", a)
	}
	// A program that dies of it leaves no record.
	for _, code := range []int32{0, 143} {
		r := newRig(t, Behaviour{DiesOnSIGTERM: true, DieCode: code})
		r.start(1, "")
		r.do("writes its start record", "makes step 1")
		for i := range 2 {
			r.Terminate(uid(1, i))
		}
		r.do("a-1-w-1 dies on SIGTERM", "a-1-w-0 dies on SIGTERM")
		if r.codes(1) != [2]int32{code, code} || r.read().Attempts[1].Result != nil || r.last().Lost() != 1 {
			t.Errorf("%v %+v", r.codes(1), r.last())
		}
	}
}

// Whatever was written when the processes are gone, a manifest that is there is
// complete, and what the workers were told is committed is there.
func TestKilledBetweenAnyTwoWrites(t *testing.T) {
	for _, b := range []Behaviour{{Total: 2}, {Total: 2, Whole: true}, {Total: 2, Objects: 3}} {
		for steps := 0; ; steps++ {
			r := newRig(t, b)
			r.start(1, "")
			r.ask(1, time.Minute)
			left := steps
			if r.Work(func() bool { left--; return left < 0 || r.ended() }); r.ended() {
				break
			}
			for i := range 2 {
				r.Kill(uid(1, i))
			}
			if codes := r.codes(1); !r.ended() || codes[0] != 137 && codes[0] != 75 || codes[1] != 137 && codes[1] != 75 {
				t.Fatalf("after %d events: %v %+v", steps, r.codes(1), r.last())
			}
			whole(t, r)
		}
	}
}

// whole fails if a manifest that is there is not complete, or one is missing of which
// the workers were told that it is there.
func whole(t *testing.T, r *rig) {
	t.Helper()
	s := r.store.Truth(r.run(), catalog.Ask{})
	there := map[string]bool{}
	for _, m := range s.Manifests {
		there[m.ID] = true
		if m.Incomplete != "" || m.Defect != nil {
			t.Fatalf("%s: %s %+v", m.ID, m.Incomplete, m.Defect)
		}
		if s.Attempts[m.Attempt].Start == nil {
			t.Fatal("a commit without a start record")
		}
	}
	for _, a := range r.Attempts() {
		for _, c := range a.Commits {
			if !there[c.ID] {
				t.Fatalf("%s was acknowledged and is not there", c.ID)
			}
		}
		if result := s.Attempts[a.Number].Result; result != nil && result.Checkpoint != "" && !there[result.Checkpoint] {
			t.Fatalf("a result names %s, which is not there", result.Checkpoint)
		}
	}
}

// The first save is due an interval after the first step; each is done SaveTime later.
func TestSavesAreDueByTheInterval(t *testing.T) {
	r := newRig(t, Behaviour{StepTime: 2 * time.Second, SaveTime: 5 * time.Second})
	r.start(1, "")
	first := r.committed(1)
	// The first step is at 2 s, so the save is due at 62 s, when 31 steps are applied:
	// the ranks act at 32, which is at 64 s.
	if step := stepOf(first); step != 32 || !r.now.Equal(noon.Add(69*time.Second)) {
		t.Errorf("step %d at %s", step, r.now.Sub(noon))
	}
	second := r.committed(33)
	if step := stepOf(second); step != 62 || !r.now.Equal(noon.Add(129*time.Second)) {
		t.Errorf("step %d at %s", step, r.now.Sub(noon))
	}
	if p := r.read().Attempts[1].Progress; p.LastSave != nil && p.LastSave.Seconds != 7 {
		t.Errorf("%+v", p.LastSave)
	}
}

// Of a save in flight and one of the yield the one that can commit in time is made.
func TestAYieldWithASaveInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		left time.Duration
		want []int64
		lost int64
	}{
		"both fit":       {40 * time.Second, []int64{32, 62, 64}, 0},
		"the new one":    {25 * time.Second, []int64{32, 64}, 0},
		"only the begun": {19 * time.Second, []int64{32, 62}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Behaviour{StepTime: 2 * time.Second, SaveTime: 20 * time.Second})
			r.start(1, "")
			r.committed(32) // at 84 s; it took 22 s
			r.work(func() bool { return r.last().Step >= 62 })
			r.now = noon.Add(127 * time.Second)
			r.ask(1, c.left)
			r.work(r.ended)
			a := r.last()
			var got []int64
			for _, commit := range a.Commits {
				got = append(got, commit.Step)
			}
			if !slices.Equal(got, c.want) || a.Lost() != c.lost || a.Outcome != "yielded" {
				t.Errorf("%v lost %d: %s", got, a.Lost(), a.Message)
			}
		})
	}
}

// One whose parts are all stored is not dropped: its commit is under way.
func TestAYieldDoesNotDropACommitThatIsUnderWay(t *testing.T) {
	r := newRig(t, Behaviour{StepTime: 2 * time.Second, SaveTime: 20 * time.Second})
	r.start(1, "")
	r.committed(32)
	r.work(func() bool { return len(r.gangs[0].flying) > 0 && r.gangs[0].flying[0].stored == 4 })
	// The manifest is due 4 s later, and 22 s for another save would not be left.
	r.ask(1, 24*time.Second)
	r.work(r.ended)
	var got []int64
	for _, commit := range r.last().Commits {
		got = append(got, commit.Step)
	}
	if len(got) != 3 || got[1] != 62 || r.last().Outcome != "yielded" || r.last().Lost() != 0 {
		t.Errorf("%v: %s", got, r.last().Message)
	}
}

// What keeps a yield from being serviced ends with 76, in bounded time.
func TestYieldsThatAreNotServiced(t *testing.T) {
	slow := Behaviour{StepTime: time.Second, SaveTime: time.Hour}
	silent := Behaviour{StepTime: time.Second, Silent: 1}
	for name, c := range map[string]struct {
		behaviour Behaviour
		before    func(*rig)
		at        time.Duration
		codes     [2]int32
	}{
		// The deadline is 20 s away, SIGTERM would follow, and 2 s before its 30 s are
		// over the ranks give up.
		"a save that takes too long":  {slow, nil, 48 * time.Second, [2]int32{76, 76}},
		"a rank that hangs":           {Behaviour{StepTime: time.Second}, func(r *rig) { r.Offer.Hangs = true; r.do("a-1-w-1 hangs") }, 48 * time.Second, [2]int32{76, 76}},
		"a rank that does not answer": {silent, nil, 10 * time.Second, [2]int32{76, -1}},
		"a rank that is gone":         {Behaviour{StepTime: time.Second}, func(r *rig) { r.Kill(uid(1, 1)) }, 10 * time.Second, [2]int32{76, 137}},
		"rank 0 that is gone":         {Behaviour{StepTime: time.Second}, func(r *rig) { r.Kill(uid(1, 0)) }, 10 * time.Second, [2]int32{137, 76}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.behaviour)
			r.start(1, "")
			r.do("writes its start record")
			r.now = noon.Add(10 * time.Second)
			if c.before != nil {
				c.before(r)
			}
			asked := r.now
			r.ask(1, 20*time.Second)
			r.work(func() bool { return r.codes(1) == c.codes })
			if got := r.now.Sub(asked); got != c.at {
				t.Errorf("after %s, want %s", got, c.at)
			}
			if result := r.read().Attempts[1].Result; c.codes[0] == 76 && (result == nil || result.Outcome != "yieldNotServiced") {
				t.Errorf("%+v", result)
			}
		})
	}
}

// Deaf workers end with their pods only.
func TestDeafWorkers(t *testing.T) {
	r := newRig(t, Behaviour{Deaf: true})
	r.start(1, "")
	r.ask(1, time.Second)
	r.Terminate(uid(1, 0))
	r.now = r.now.Add(time.Hour)
	if r.offered("hears") || r.offered("exits") || r.offered("gives") {
		t.Error("they heard something")
	}
}

// One of two fails; the other ends 20 s later, when nobody ends it before.
func TestACrash(t *testing.T) {
	for _, c := range []struct {
		recorded bool
		rank     int32
		after    time.Duration
		outcome  string
	}{{false, 1, 20 * time.Second, "failed"}, {true, 1, 10 * time.Second, "failed"}, {false, 0, 20 * time.Second, ""}, {true, 0, 10 * time.Second, "failed"}} {
		r := newRig(t, Behaviour{StepTime: time.Second, CrashAt: 5, CrashRank: c.rank, CrashCode: 3, CrashRecorded: c.recorded})
		r.start(1, "")
		r.work(r.ended)
		want := [2]int32{1, 1}
		want[c.rank] = 3
		if r.codes(1) != want || r.now.Sub(noon) != 5*time.Second+c.after || r.last().Lost() != 5 {
			t.Errorf("%+v: %v after %s: %+v", c, r.codes(1), r.now.Sub(noon), r.last())
		}
		result := r.read().Attempts[1].Result
		if (result == nil) != (c.outcome == "") || result != nil && (result.Outcome != c.outcome || result.Step != 5) {
			t.Errorf("%+v: %+v", c, result)
		}
	}
}

// What cannot be restored ends with 77. Only damage that is proven condemns, and never
// the last checkpoint of the branch.
func TestRestoresThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		damage      func(r *rig, id string)
		behaviour   Behaviour
		cause       string
		quarantined bool
	}{
		"rotten data":                     {func(r *rig, _ string) { r.store.Rot(dataOf(r, 2)) }, Behaviour{}, "checksumMismatch", true},
		"rotten index":                    {func(r *rig, _ string) { r.store.Rot(strings.Replace(dataOf(r, 2), "r1-0", "r1-index.json", 1)) }, Behaviour{}, "checksumMismatch", true},
		"rotten manifest":                 {func(r *rig, id string) { r.store.Rot(key("manifests/" + id + ".json")) }, Behaviour{}, "checksumMismatch", true},
		"lost data":                       {func(r *rig, _ string) { r.store.Lose(dataOf(r, 2)) }, Behaviour{}, "missing", true},
		"a store that contradicts itself": {func(r *rig, _ string) { r.store.Contradict(dataOf(r, 2)) }, Behaviour{}, "storeError", false},
		"refused":                         {func(r *rig, _ string) { r.store.Down(store.Denied) }, Behaviour{}, "storeError", false},
		"no answer":                       {func(r *rig, _ string) { r.store.Down(store.Outage) }, Behaviour{}, "storeError", false},
		"out of memory":                   {func(*rig, string) {}, Behaviour{RestoreFails: "outOfMemory"}, "outOfMemory", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Behaviour{Total: 2})
			r.start(1, "")
			r.work(r.ended)
			id := r.selected()
			if stepOf(id) != 2 || len(r.read().Manifests) != 2 {
				t.Fatal(id)
			}
			r.behaviour = c.behaviour
			r.start(2, id)
			r.do("writes its start record")
			c.damage(r, id)
			r.work(func() bool { return r.last().Outcome != "" })
			r.store.Up()
			r.work(r.ended)
			r.store.Agree()
			s := r.store.Read(r.run(), catalog.Ask{})
			result := s.Attempts[2].Result
			if _, got := s.Quarantined[id]; got != c.quarantined || r.last().Outcome != "restoreFailed" || r.last().Restored {
				t.Errorf("quarantined %v: %+v", got, r.last())
			}
			if r.codes(2) != [2]int32{77, 77} || result != nil && (result.RestoreFailure.Cause != c.cause || result.RestoreFailure.Checkpoint != id) {
				t.Errorf("%v %+v", r.codes(2), result)
			}
			if result == nil && name != "refused" {
				t.Error("no result")
			}
		})
	}
}

// dataOf is the data object of rank 1 of the checkpoint of a step.
func dataOf(r *rig, step int64) string {
	for _, m := range r.read().Manifests {
		if m.Step == step {
			return key(checkpoint.Prefix(m.Attempt, m.Step, strings.Split(m.ID, "-")[2]) + "01/r1-0")
		}
	}
	r.t.Fatal("no checkpoint of step", step)
	return ""
}

func TestTheLastCheckpointIsNotCondemned(t *testing.T) {
	r := newRig(t, Behaviour{Total: 1})
	r.start(1, "")
	r.work(r.ended)
	id := r.selected()
	r.store.Rot(dataOf(r, 1))
	r.start(2, id)
	r.work(r.ended)
	if s := r.read(); len(s.Quarantined) != 0 || s.Attempts[2].Result.RestoreFailure.Cause != "checksumMismatch" || r.selected() != id {
		t.Errorf("%+v", s)
	}
}

// A zombie goes on after its pods were taken from it, and what it commits is of its
// attempt: nothing that a newer one reads.
func TestAZombieIsFenced(t *testing.T) {
	r := newRig(t, Behaviour{})
	r.start(1, "")
	shared := r.committed(1)
	r.start(2, shared)
	r.work(func() bool { return len(r.last().Commits) > 0 })
	newest := r.selected()
	r.work(func() bool { return len(r.Attempts()[0].Commits) > 3 })
	if got := r.selected(); got != newest && !strings.HasPrefix(got, "000002") {
		t.Errorf("selected %s, want one of attempt 2", got)
	}
	whole(t, r)
}

// An answer that is lost, and the store that is away: tried again with the same bytes.
func TestLostAnswersAndOutages(t *testing.T) {
	r := newRig(t, Behaviour{Total: 1})
	r.Offer.LostAnswers = true
	r.start(1, "")
	r.do("writes its start record, the answer is lost", "writes its start record", "makes step 1", "finishes")
	r.store.Down(store.Outage)
	if r.offered("stores") {
		t.Error("stored in a store that is away")
	}
	r.store.Up()
	for part := range 4 {
		r.do(fmt.Sprintf("stores part %d of step 1", part))
	}
	r.do("commits step 1, the answer is lost")
	r.now = r.now.Add(time.Second)
	id := r.selected()
	r.do("commits step 1", "writes its result, the answer is lost", "writes its result: finished")
	if s := r.read(); len(s.Manifests) != 1 || r.last().Commits[0].ID != id {
		t.Errorf("%+v", s.Manifests)
	}
	// The result of finish() is tried for a minute; then that it is complete is not
	// known.
	r.start(2, id)
	r.do("a-2 writes its start record", "a-2 restores", "a-2 finishes")
	r.store.Down(store.Outage)
	r.work(func() bool { return r.codes(2) == [2]int32{1, 1} })
	if r.now.Sub(noon) != 61*time.Second || r.last().Recorded {
		t.Error(r.now.Sub(noon))
	}
}

// What is refused is not tried again: a yield is not serviced, a periodic save is given
// up and comes again.
func TestAStoreThatRefuses(t *testing.T) {
	r := newRig(t, Behaviour{StepTime: time.Second})
	r.start(1, "")
	r.do("writes its start record")
	r.work(func() bool { return r.offered("stores") })
	r.store.Down(store.Denied)
	r.work(func() bool { return !r.offered("gives the save") })
	r.store.Up()
	given := r.now
	r.committed(1)
	if waited := r.now.Sub(given); waited != 31*time.Second {
		t.Errorf("again after %s", waited)
	}
	r.store.Down(store.Denied)
	r.ask(1, time.Minute)
	r.work(r.ended)
	if r.codes(1) != [2]int32{76, 76} || r.last().Recorded {
		t.Errorf("%v %+v", r.codes(1), r.last())
	}
}

// A start record that cannot be written: refused it ends the attempt, without an answer
// the ranks begin, and nothing is committed before it is there.
func TestAStartRecordThatIsNotTaken(t *testing.T) {
	r := newRig(t, Behaviour{Total: 1})
	r.store.Down(store.Denied)
	r.start(1, "")
	r.work(r.ended)
	if r.codes(1) != [2]int32{1, 1} {
		t.Error(r.codes(1))
	}
	r.store.Up()
	r.store.Down(store.Outage)
	begun := r.now
	r.start(2, "")
	r.work(func() bool { return r.last().Step == 1 })
	if waited := r.now.Sub(begun); waited != openTime {
		t.Error(waited)
	}
	r.store.Up()
	r.do("finishes")
	for part := range 4 {
		r.do(fmt.Sprintf("stores part %d of step 1", part))
	}
	if r.offered("commits") {
		t.Error("a commit without a start record")
	}
	r.do("writes its start record", "commits step 1")
	whole(t, r)
}

// A commit that is under way when the time is over may come after the result: then the
// checkpoint is there, and the result does not know it.
func TestACommitAfterTheResult(t *testing.T) {
	r := newRig(t, Behaviour{SaveEvery: 100})
	r.start(1, "")
	r.do("writes its start record", "makes step 1")
	r.ask(1, time.Minute)
	r.do("hears of the yield", "agrees", "makes step 2")
	for part := range 4 {
		r.do(fmt.Sprintf("stores part %d of step 2", part))
	}
	r.now = noon.Add(88 * time.Second) // a minute, and the grace period but for 2 s
	r.do("gives the yield up: no checkpoint was committed in the time that there was", "writes its result: yieldNotServiced")
	r.do("commits step 2", "a-1-w-0 exits 76")
	if result := r.read().Attempts[1].Result; result.Checkpoint != "" || result.LostSteps != 2 || stepOf(r.selected()) != 2 {
		t.Errorf("%+v", result)
	}
}

func TestPodsAreReadyWhenTheirTimeComes(t *testing.T) {
	r := newRig(t, Behaviour{ReadyTime: 5 * time.Second})
	r.start(1, "")
	if ready, _, _ := r.State(uid(1, 0)); ready || !r.Next().Equal(noon.Add(5*time.Second)) {
		t.Error(r.Next())
	}
	r.now = r.Next()
	if ready, exited, _ := r.State(uid(1, 0)); !ready || exited {
		t.Error("not ready")
	}
	r.behaviour.ReadyTime = -1
	r.start(2, "")
	r.now = r.now.Add(time.Hour)
	if ready, _, _ := r.State(uid(2, 0)); ready {
		t.Error("ready")
	}
}

func TestAProgramWithoutTheSDK(t *testing.T) {
	r := newRig(t, Behaviour{Plain: true, StepTime: time.Second, Total: 3})
	r.start(1, "")
	r.work(r.ended)
	if s := r.read(); len(s.Attempts) != 0 || r.codes(1) != [2]int32{0, 0} || r.now.Sub(noon) != 3*time.Second {
		t.Errorf("%+v %v", s, r.codes(1))
	}
	r.start(2, "")
	r.Terminate(uid(2, 0))
	r.do("a-2-w-0 dies on SIGTERM")
	if r.codes(2) != [2]int32{143, -1} {
		t.Error(r.codes(2))
	}
}

// Random lives with every flaw and fault: names are unique, clones go the same way,
// what is committed is whole, nothing is in the past for ever.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := newRig(t, Behaviour{})
		timed := random.IntN(2) == 0
		r.env.Behave = func(Attempt) Behaviour {
			b := Drawn(random, 1+random.Int64N(200), 2)
			if !timed {
				b.StepTime, b.SaveTime = 0, 0
			}
			return b
		}
		r.Offer = Faults{Crashes: true, Hangs: true, LostAnswers: true, TornSaves: true}
		attempt := int32(0)
		for range 400 {
			switch random.IntN(40) {
			case 0:
				attempt++
				r.start(attempt, r.selectedOrNone())
			case 1:
				if attempt > 0 {
					r.ask(attempt, time.Duration(random.IntN(60))*time.Second)
				}
			case 2:
				r.Terminate(uid(max(1, attempt-random.Int32N(2)), random.IntN(2)))
			case 3:
				if random.IntN(4) == 0 {
					r.Kill(uid(max(1, attempt), random.IntN(2)))
				}
			case 4:
				if random.IntN(4) == 0 {
					r.store.Down([]*catalog.Error{store.Outage, store.Denied, store.Throttled}[random.IntN(3)])
				} else {
					r.store.Up()
				}
			case 5:
				if next := event.Soonest(r.Next(), r.store.Next()); !next.IsZero() {
					if !next.After(r.now) {
						t.Fatalf("seed %d: next is %s, it is %s", seed, next, r.now)
					}
					r.now = next
				} else {
					r.now = r.now.Add(time.Second)
				}
			}
			var events []event.Event
			names := map[string]bool{}
			r.Events(func(e event.Event) {
				if names[e.Name] {
					t.Fatalf("seed %d: %q twice", seed, e.Name)
				}
				names[e.Name] = true
				if !e.Fault || random.IntN(20) == 0 {
					events = append(events, e)
				}
			})
			if len(events) == 0 {
				continue
			}
			chosen := events[random.IntN(len(events))]
			clone := r.clone()
			if err := clone.Do(chosen.Name); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			before := len(r.store.Truth(r.run(), catalog.Ask{}).Manifests)
			chosen.Do()
			if before > len(r.store.Truth(r.run(), catalog.Ask{}).Manifests) {
				t.Fatalf("seed %d: %s took a manifest", seed, chosen.Name)
			}
			if clone.fingerprint() != r.fingerprint() {
				t.Fatalf("seed %d: after %q a clone is another", seed, chosen.Name)
			}
		}
		whole(t, r)
		r.endsInTime(seed)
		whole(t, r)
	}
}

// endsInTime fails if workers that got SIGTERM run on when their grace period is over,
// though they are neither deaf nor silent.
func (r *rig) endsInTime(seed uint64) {
	r.t.Helper()
	r.store.Up()
	for i := range r.processes {
		r.Terminate(r.processes[i].uid)
	}
	killed := r.now.Add(30 * time.Second)
	for {
		r.Work(func() bool { return false })
		next := event.Soonest(r.Next(), r.store.Next())
		if next.IsZero() || next.After(killed) {
			break
		}
		r.now = next
	}
	for i := range r.processes {
		p := &r.processes[i]
		if g := r.gang(p.gang); !g.behaviour.Deaf && !r.silent(g, p) {
			r.t.Fatalf("seed %d: %s of attempt %d runs on: %+v", seed, p.uid, g.Number, g)
		}
	}
}

func (r *rig) selectedOrNone() string {
	c := checkpoint.Select(r.store.Truth(r.run(), catalog.Ask{}), checkpoint.Query{RunID: "run-1", WorldSize: 2})
	if c.Selected == nil {
		return ""
	}
	return c.Selected.ID
}

// clone is the same rig at the same time, with a store of its own.
func (r *rig) clone() *rig {
	c := &rig{t: r.t, now: r.now, behaviour: r.behaviour}
	c.store = r.store.Clone(store.Env{Now: c.clock})
	env := c.environment()
	env.Behave = r.env.Behave
	c.Trainer = r.Trainer.Clone(env)
	return c
}

func BenchmarkLife(b *testing.B) {
	events := 0
	for b.Loop() {
		r := newRig(nil, Behaviour{StepTime: time.Second, SaveTime: 5 * time.Second, Total: 100})
		r.start(1, "")
		for !r.ended() {
			before := events
			r.Work(func() bool { events++; return r.ended() })
			if next := r.Next(); !next.IsZero() && events > before {
				r.now = next
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}
