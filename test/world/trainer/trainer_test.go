package trainer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/hooks/catalog"
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
