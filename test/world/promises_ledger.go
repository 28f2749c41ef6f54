package world

import (
	"fmt"
	"slices"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// account is an attempt's entry in the ledger.
type account map[string]any

func (a account) attempt() int64 { n, _ := a["attempt"].(int64); return n }

// at is a moment of the account; empty: it has none. They are compared as text.
func (a account) at(key string) string { at, _ := a[key].(string); return at }

// runSeconds are those from the start to the stop; 0 while one of them is not known.
func (a account) runSeconds() int64 {
	from, to := a.time("startedAt"), a.time("stoppedAt")
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return int64(to.Sub(from) / time.Second)
}

func (a account) time(key string) time.Time {
	at, _ := time.Parse(time.RFC3339, a.at(key))
	return at
}

func accounts(job *apiserver.Object) (all []account) {
	for _, item := range job.List("status", "ledger") {
		entry, _ := item.(map[string]any)
		all = append(all, entry)
	}
	return all
}

// accounted tells whether a write changed the ledger.
func accounted(write apiserver.Write) bool {
	return statusOf(write) && !sameList(write.Old.List("status", "ledger"), write.New.List("status", "ledger"))
}

func sameList(a, b []any) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// moments of an account, in their order. Between them an attempt starts, runs, and
// gives its quota back; until the first it is in the queue.
var moments = []string{"admittedAt", "startedAt", "stoppedAt", "releasedAt"}

// ledgerAddsUp: the moments of an attempt are in order, from the job's creation on, and
// those of neighbours do not overlap; every attempt that started and is not the newest
// has stopped. So what was spent in the queue, starting, running, and giving quota back
// adds up to the time that passed, whatever attempts there were. An admission while the
// attempt before was still being stopped, whose quota was freed by others, counts from
// the stop.
func ledgerAddsUp(_ *World, _ *life, write apiserver.Write) string {
	if !accounted(write) {
		return ""
	}
	var before account
	from := write.New.Text("metadata", "creationTimestamp")
	for i, a := range accounts(write.New) {
		if i > 0 && a.attempt() <= before.attempt() {
			return fmt.Sprintf("attempt %d after %d", a.attempt(), before.attempt())
		}
		if i > 0 && before.at("startedAt") != "" && before.at("stoppedAt") == "" {
			return fmt.Sprintf("attempt %d started and did not stop, and there is attempt %d", before.attempt(), a.attempt())
		}
		if admitted := before.at("admittedAt"); i > 0 && admitted != "" && a.at("admittedAt") > admitted && before.at("stoppedAt") != "" &&
			a.at("admittedAt") >= before.at("stoppedAt") && before.at("releasedAt") == "" {
			return fmt.Sprintf("attempt %d is on another admission than attempt %d, which has not given its quota back", a.attempt(), before.attempt())
		}
		for _, moment := range moments {
			at := a.at(moment)
			// Two attempts on one admission have the same one.
			if at == "" || moment == "admittedAt" && at == before.at(moment) {
				continue
			}
			if moment == "admittedAt" && at < before.at("stoppedAt") {
				at = from
			}
			if at < from {
				return fmt.Sprintf("attempt %d: %s %s is before %s", a.attempt(), moment, at, from)
			}
			from = at
		}
		before = a
	}
	if all, attempt := write.New.Int("status", "totals", "attempts")+int64(len(accounts(write.New))), write.New.Int("status", "attempt"); all > attempt {
		return fmt.Sprintf("%d accounts, and the newest attempt is %d", all, attempt)
	}
	return ""
}

// ledgerHasAllRuns: an attempt's account begins before its workers run, to the second,
// and ends when none runs any more. Attempts that were given up are left out, and those
// during which a node fell silent, a pod was forced, a Job deleted, or the controllers of
// JobSets and Jobs were late: nothing that rtj watches shows their processes. The same
// goes for those that somebody started by hand. One that is told as never started has no run to be
// compared: an instance that does not see its own start yet may say so.
func ledgerHasAllRuns(w *World, l *life, write apiserver.Write) string {
	if !accounted(write) {
		return ""
	}
	was := map[int64]bool{}
	for _, a := range accounts(write.Old) {
		was[a.attempt()] = a.at("stoppedAt") != ""
	}
	for _, a := range accounts(write.New) {
		n := a.attempt()
		if was[n] || a.at("startedAt") == "" || a.at("stoppedAt") == "" || l.isForced(n) || isForced(write.New, n) ||
			w.startedByHand[fmt.Sprintf("%s-%d", write.New.Key(), n)] {
			continue
		}
		for _, run := range w.trainer.Attempts() {
			if run.RunID != l.uid || int64(run.Number) != n || w.unseen(l.launchedAt[n], run.EndedAt) {
				continue
			}
			switch started, stopped := a.time("startedAt"), a.time("stoppedAt"); {
			case run.EndedAt.IsZero():
				return fmt.Sprintf("attempt %d stopped at %s, and %d of its pods run", n, a.at("stoppedAt"), run.Running)
			case started.After(run.StartedAt):
				return fmt.Sprintf("attempt %d started at %s, and its first worker at %s", n, a.at("startedAt"), run.StartedAt.Format(time.RFC3339))
			case stopped.Before(run.EndedAt.Truncate(time.Second)):
				return fmt.Sprintf("attempt %d stopped at %s, and its last worker at %s", n, a.at("stoppedAt"), run.EndedAt.Format(time.RFC3339))
			}
		}
	}
	return ""
}

// unseen tells whether processes of an attempt that was launched and ended then may have
// run on unseen. A zero end is now.
func (w *World) unseen(from, to time.Time) bool {
	return slices.ContainsFunc(w.unseenAt, func(at time.Time) bool {
		return !at.Before(from) && (to.IsZero() || !at.After(to))
	})
}

// totalsTakeOver: what the entries of attempts say that leave the ledger is added to
// the totals, and nothing else is.
func totalsTakeOver(_ *World, _ *life, write apiserver.Write) string {
	if !accounted(write) {
		return ""
	}
	left := accounts(write.Old)
	if now := accounts(write.New); len(now) > 0 {
		for i, a := range left {
			if a.attempt() >= now[0].attempt() {
				left = left[:i]
				break
			}
		}
	}
	var run, lost int64
	for _, a := range left {
		run += a.runSeconds()
		steps, _ := a["lostSteps"].(int64)
		lost += steps
	}
	for _, sum := range []struct {
		name string
		want int64
	}{{"attempts", int64(len(left))}, {"runSeconds", run}, {"lostSteps", lost}} {
		if was, is := write.Old.Int("status", "totals", sum.name), write.New.Int("status", "totals", sum.name); is-was != sum.want {
			return fmt.Sprintf("totals.%s: %d -> %d, and the attempts that left the ledger had %d", sum.name, was, is, sum.want)
		}
	}
	return ""
}
