package lifecycle

import (
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/trainer"
)

// runID is the run of the job.
func (w *world) runID() string {
	if id := w.job().Text("status", "runID"); id != "" {
		return id
	}
	return w.job().UID
}

// hand writes for the workers of an attempt.
func (w *world) hand(attempt, worldSize int32) *trainer.Hand {
	return &trainer.Hand{
		Store: w.store, Now: func() time.Time { return w.now }, StorageURI: w.job().Text("spec", "checkpoint", "storage", "uri"),
		Namespace: namespace, Name: jobName, RunID: w.runID(), Attempt: attempt, WorldSize: worldSize,
	}
}

// reading is what a reading of the job's run finds now.
func (w *world) reading() *checkpoint.Snapshot {
	job := w.job()
	return w.store.Read(catalog.Run{
		Namespace: namespace, Name: job.Name, RunID: w.runID(), Location: catalog.Location{URI: job.Text("spec", "checkpoint", "storage", "uri")},
	}, catalog.Ask{})
}
