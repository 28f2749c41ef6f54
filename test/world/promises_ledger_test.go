package world

import (
	"testing"
	"time"
)

// What was hidden from rtj while one attempt ran is not forgotten when something is
// hidden again later, nor does it excuse an attempt that ran at another time.
func TestWhatWasHiddenCountsForTheAttemptOfThatTime(t *testing.T) {
	w := New(Config{Seed: 1, Jobs: 1, Pods: 1, Quotas: []int64{1}, Runners: 1, Steps: 1})
	at := func(minute int) time.Time { return epoch.Add(time.Duration(minute) * time.Minute) }
	for _, minute := range []int{10, 30} {
		w.clock.at = at(minute)
		w.noted("fault: delete job team/a-1-workers-0")
	}
	for _, run := range []struct {
		what     string
		from, to time.Time
		unseen   bool
	}{
		{"the first", at(5), at(15), true},
		{"between both", at(15), at(25), false},
		{"the last", at(25), at(35), true},
		{"one that still runs", at(28), time.Time{}, true},
		{"after both", at(31), time.Time{}, false},
	} {
		if got := w.unseen(run.from, run.to); got != run.unseen {
			t.Errorf("%s: unseen %t, want %t", run.what, got, run.unseen)
		}
	}
}
