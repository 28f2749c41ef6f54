package trainer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

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
