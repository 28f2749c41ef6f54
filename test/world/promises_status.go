package world

import (
	"fmt"
	"slices"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

const jobKind = "ResumableTrainingJob"

// statusOf tells whether a write changed the status of the job, and that is not its end.
func statusOf(write apiserver.Write) bool {
	return write.New != nil && write.New.Kind == jobKind && write.Old != nil
}

func terminal(o *apiserver.Object) bool {
	phase := o.Text("status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}

func terminalStays(_ *World, _ *life, write apiserver.Write) string {
	if !statusOf(write) || !terminal(write.Old) {
		return ""
	}
	if was, is := write.Old.Text("status", "phase"), write.New.Text("status", "phase"); was != is {
		return was + " -> " + is
	}
	return ""
}

func terminalMakesNothing(_ *World, l *life, write apiserver.Write) string {
	if write.Old == nil && byUs(write.By) && terminal(l.job) && (write.New.Kind == "JobSet" || write.New.Kind == "Workload") {
		return "creates " + write.New.String()
	}
	return ""
}

func numbersGoUp(_ *World, _ *life, write apiserver.Write) string {
	if !statusOf(write) {
		return ""
	}
	for _, path := range [][]string{{"attempt"}, {"workloadNumber"}, {"preemptions"}, {"lastEnd", "attempt"}, {"totals", "attempts"}} {
		path = append([]string{"status"}, path...)
		if was, is := write.Old.Int(path...), write.New.Int(path...); is < was {
			return fmt.Sprintf("%v: %d -> %d", path, was, is)
		}
	}
	return ""
}

// statusBound is in bytes of JSON: with 20 attempts in the ledger, 16 checkpoints
// passed over with their reasons, and conditions.
const statusBound = 40 << 10

func statusIsSmall(_ *World, _ *life, write apiserver.Write) string {
	if !statusOf(write) || write.New.Version%16 != 0 {
		return "" // a sample: it grows slowly, and encoding it takes long
	}
	if n := len(write.New.JSON()); n > statusBound {
		return fmt.Sprintf("%d bytes", n)
	}
	return ""
}

// preemptionIsFree: failures are counted only for attempts that ended by their own
// fault.
func preemptionIsFree(_ *World, _ *life, write apiserver.Write) string {
	if !statusOf(write) || write.New.Int("status", "failures", "withoutProgress") <= write.Old.Int("status", "failures", "withoutProgress") {
		return ""
	}
	n := write.New.Int("status", "lastEnd", "attempt")
	if outcome := write.New.Text("status", "lastEnd", "outcome"); outcome != "Failed" && outcome != "CompletedWithoutResult" {
		return fmt.Sprintf("a failure is counted for attempt %d, which ended as %s", n, outcome)
	}
	if write.New.Int("status", "yield", "attempt") == n {
		return fmt.Sprintf("a failure is counted for attempt %d, which was asked to yield (%s)", n, write.New.Text("status", "yield", "cause"))
	}
	return ""
}

// ledgerAddsUp: the times of an attempt are in order, and those of neighbours do
// not overlap, so that queueing, starting, running, draining and releasing add up to
// the time that passed; and every attempt has its account.
func ledgerAddsUp(_ *World, _ *life, write apiserver.Write) string {
	if !statusOf(write) || sameValue(write.Old.At("status", "ledger"), write.New.At("status", "ledger")) {
		return ""
	}
	var before string
	var last int64
	for _, item := range write.New.List("status", "ledger") {
		entry, _ := item.(map[string]any)
		n, _ := entry["attempt"].(int64)
		if n <= last {
			return fmt.Sprintf("attempt %d after %d", n, last)
		}
		last = n
		from := ""
		for _, key := range []string{"admittedAt", "startedAt", "stoppedAt", "releasedAt"} {
			at, ok := entry[key].(string)
			if !ok {
				continue
			}
			if at < from {
				return fmt.Sprintf("attempt %d: %s %s is before %s", n, key, at, from)
			}
			from = at
			if key == "startedAt" && at < before {
				return fmt.Sprintf("attempt %d started at %s, and the one before stopped at %s", n, at, before)
			}
		}
		if _, err := time.Parse(time.RFC3339, from); from != "" && err != nil {
			return err.Error()
		}
		if at, ok := entry["stoppedAt"].(string); ok {
			before = at
		}
	}
	accounts := write.New.Int("status", "totals", "attempts") + int64(len(write.New.List("status", "ledger")))
	if attempt := write.New.Int("status", "attempt"); accounts > attempt {
		return fmt.Sprintf("%d accounts, and the newest attempt is %d", accounts, attempt)
	}
	return ""
}

func sameValue(a, b any) bool {
	x, ok := a.([]any)
	y, ok2 := b.([]any)
	return ok && ok2 && len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
}

// byUs tells whether rtj wrote.
func byUs(by string) bool { return len(by) >= 3 && by[:3] == "rtj" }

// forced are the attempts that were given up.
func (l *life) forced() (numbers []int64) {
	for _, item := range l.job.List("status", "forced") {
		if f, ok := item.(map[string]any); ok {
			n, _ := f["attempt"].(int64)
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func (l *life) isForced(n int64) bool { return slices.Contains(l.forced(), n) }
