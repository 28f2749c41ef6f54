package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/world/store"
	"rtj.dev/rtj/test/world/trainer"
)

// start tells the starts of attempts apart.
type start struct {
	run    string
	number int32
	at     time.Time
}

// begun are the attempts whose workers started since the last look, by what the
// workers know.
func (p *promises) begun(w *World) (fresh []trainer.Attempt) {
	if p.pods == w.api.Changed("Pod") {
		return nil
	}
	for _, a := range w.trainer.Since(p.over) {
		s := start{a.RunID, a.Number, a.StartedAt}
		if !p.started[s] {
			p.started[s] = true
			fresh = append(fresh, a)
		}
	}
	p.over = len(w.trainer.Over())
	return fresh
}

// recheckLasts is how old the check of a checkpoint may be at a launch, and how long
// it may be until the first worker starts is up to the nodes.
const recheckLasts = 30 * time.Second

// resumesFromGood: a checkpoint that was damaged after its last check is found by the
// workers.
func resumesFromGood(w *World, l *life, a *trainer.Attempt) string {
	s := a.Selected
	if s.ID == "" {
		return ""
	}
	launched := l.launchedAt[int64(a.Number)]
	switch {
	case s.Foreign:
		return fmt.Sprintf("attempt %d was told to resume from %s, which is another run's", a.Number, s.ID)
	case w.damagedAt.After(launched.Add(-recheckLasts)) || w.config.SlowListings:
		return ""
	case s.Problem != "" && w.readBeforeItRotted(l, a):
		return ""
	case s.Problem != "":
		return fmt.Sprintf("attempt %d was told to resume from %s: %s", a.Number, s.ID, s.Problem)
	case s.Quarantined && !w.quarantinedAt(l, s.ID).After(launched.Add(-recheckLasts)):
		return fmt.Sprintf("attempt %d was told to resume from %s, which is quarantined", a.Number, s.ID)
	case w.config.Reshard == "none" && s.WorldSize != a.WorldSize:
		return fmt.Sprintf("attempt %d of %d ranks was told to resume from %s, which only %d ranks can", a.Number, a.WorldSize, s.ID, s.WorldSize)
	}
	return ""
}

// readBeforeItRotted: an object of the job's run changed its bytes and nothing else, while
// a process ran that launched the attempt. Having read it before, it does not read it
// again; the workers find it.
func (w *World) readBeforeItRotted(l *life, a *trainer.Attempt) bool {
	for key, knew := range w.rotten {
		if strings.HasPrefix(key, l.prefix()) && slices.ContainsFunc(l.launchedBy[int64(a.Number)], func(by string) bool { return slices.Contains(knew, by) }) {
			return true
		}
	}
	return false
}

// quarantinedAt is when a checkpoint of the job was quarantined.
func (w *World) quarantinedAt(l *life, id string) time.Time {
	page, _, err := w.store.List(l.prefix()+"quarantine/"+id, "", 1)
	if err != nil || len(page) == 0 {
		return time.Time{}
	}
	return page[0].Modified
}

// resumesFromNewest: where nothing was damaged and nobody asked for another one, an
// attempt goes on from the newest commit of the one before it that has any. So a
// yield that the workers served loses no step, and a crash only those since the
// last commit.
//
// A commit at the very instant at which the claim was seen to stand is left out: the
// world's clock stands still between events, so that a reading of that instant may have
// been before it. A cluster's clocks do not.
func resumesFromNewest(w *World, l *life, a *trainer.Attempt) string {
	if !w.damagedAt.IsZero() || w.config.SlowListings || w.config.Reshard != "" || l.rolledBack || len(l.forced()) > 0 || l.restoreFailed {
		return ""
	}
	newest, number, claimed := int64(0), int32(0), l.claimedAt(int64(a.Number))
	for _, earlier := range w.trainer.Over() {
		if earlier.RunID != l.uid || earlier.Number >= a.Number || earlier.Number < number {
			continue
		}
		for _, c := range earlier.Commits {
			switch {
			case c.At.Equal(claimed):
			case earlier.Number > number:
				newest, number = c.Step, earlier.Number
			default:
				newest = max(newest, c.Step)
			}
		}
	}
	if from := stepOf(a.Selected.ID); from < newest {
		return fmt.Sprintf("attempt %d goes on from step %d, and attempt %d had committed step %d", a.Number, from, number, newest)
	}
	return ""
}

// claimedAt is when the claim of an attempt was seen to stand; zero where no moment is noted.
func (l *life) claimedAt(attempt int64) time.Time {
	for _, a := range accounts(l.job) {
		if a.attempt() == attempt {
			return a.time("claimedAt")
		}
	}
	return time.Time{}
}

// prefix is where the job's run is in the store.
func (l *life) prefix() string { return store.RunPrefix(storage, namespace, l.name, l.uid) }

// checkpointsStay: what was committed is there, unless a fault took it.
func checkpointsStay(w *World, l *life) string {
	if !w.damagedAt.IsZero() {
		return ""
	}
	for _, a := range w.trainer.Over() {
		if a.RunID != l.uid {
			continue
		}
		for _, c := range a.Commits {
			if !w.store.Has(l.prefix() + "manifests/" + c.ID + ".json") {
				return "checkpoint " + c.ID + " is gone"
			}
		}
	}
	return ""
}

// stepOf is the step of a checkpoint by its id; 0 for none.
func stepOf(id string) int64 {
	_, step, _, _, _ := checkpoint.ParseID(id)
	return step
}
