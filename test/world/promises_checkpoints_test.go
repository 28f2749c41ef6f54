package world

import (
	"testing"

	"rtj.dev/rtj/test/world/trainer"
)

// What a process read before its bytes rotted it need not find; one that was started
// since has to, and so has each where nothing of the job rotted.
func TestOnlyWhoReadBeforeItRottedMayLaunchFromIt(t *testing.T) {
	w := New(Config{Seed: 1, Jobs: 1, Pods: 1, Quotas: []int64{1}, Runners: 1, Steps: 1})
	l := w.promises.lives[w.promises.order[0]]
	l.launchedBy[1] = w.running()
	w.noted("store: rot checkpoints/team/team/other/uid-0/manifests/m.json")
	if w.readBeforeItRotted(l, &trainer.Attempt{Number: 1}) {
		t.Error("excused, though what rotted is another job's")
	}
	w.noted("store: rot " + l.prefix() + "manifests/m.json")
	if !w.readBeforeItRotted(l, &trainer.Attempt{Number: 1}) {
		t.Error("the process that ran when it rotted is not excused")
	}
	w.runners[0].Crash()
	w.runners[0].Restart(w.api.Changed)
	l.launchedBy[2] = w.running()
	if w.readBeforeItRotted(l, &trainer.Attempt{Number: 2}) {
		t.Error("a process that was started since is excused")
	}
}
