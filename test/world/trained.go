package world

import (
	"fmt"
	"time"
)

// Trained is a world for measuring: a job of 2 Jobs trains, 4 checkpoints are in the
// store, and nothing goes wrong. People pause, resume and edit the job, and stop
// queues, before all comes to rest. Of the syncs one in jsonEvery goes through the
// messages of the hooks too.
func Trained(seed uint64, jsonEvery int) *World {
	w := New(Config{
		Seed: seed, Jobs: 1, Pods: 2, Quotas: []int64{2}, Runners: 1, Steps: 200, StepTime: 10 * time.Second, Chaos: 1000, JSONEvery: jsonEvery,
	})
	for commits := 0; commits < 4; {
		if !w.comeOn() || w.broken != nil {
			panic(fmt.Sprintf("the small world of seed %d comes to no 4 checkpoints: %v", seed, w.broken))
		}
		commits = 0
		for _, a := range w.trainer.Attempts() {
			commits += len(a.Commits)
		}
	}
	w.people.acts = 5
	w.changed()
	return w
}

// Finish has a world go on at random, and then come to rest. The result counts what
// has happened from its beginning.
func (w *World) Finish() Result {
	w.chaos()
	w.calm()
	return w.result()
}

// Result is what has become of the world so far.
func (w *World) Result() Result { return w.result() }
