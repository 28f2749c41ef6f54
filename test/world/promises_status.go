package world

import (
	"fmt"
	"slices"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

const jobKind = v1beta1.Kind

// statusOf tells whether a write changed the status of the job, and that is not its end.
func statusOf(write apiserver.Write) bool {
	return write.New != nil && write.New.Kind == jobKind && write.Old != nil
}

func terminalStays(_ *World, _ *life, write apiserver.Write) string {
	if !statusOf(write) || !stated.Ended(write.Old) {
		return ""
	}
	if was, is := write.Old.Text("status", "phase"), write.New.Text("status", "phase"); was != is {
		return was + " -> " + is
	}
	return ""
}

func terminalMakesNothing(_ *World, l *life, write apiserver.Write) string {
	if write.Old == nil && byUs(write.By) && stated.Ended(l.job) && (write.New.Kind == "JobSet" || write.New.Kind == "Workload") {
		return "creates " + write.New.String()
	}
	return ""
}

// rising are the numbers in status that never go down.
var rising = [][]string{
	{"status", "attempt"}, {"status", "workloadNumber"}, {"status", "preemptions"},
	{"status", "lastEnd", "attempt"}, {"status", "totals", "attempts"},
}

func numbersGoUp(_ *World, _ *life, write apiserver.Write) string {
	if !statusOf(write) {
		return ""
	}
	for _, path := range rising {
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
// fault. Those that hung after they had recorded it were asked to end for a Disruption.
func preemptionIsFree(_ *World, _ *life, write apiserver.Write) string {
	if !statusOf(write) || write.New.Int("status", "failures", "withoutProgress") <= write.Old.Int("status", "failures", "withoutProgress") {
		return ""
	}
	n := write.New.Int("status", "lastEnd", "attempt")
	if outcome := write.New.Text("status", "lastEnd", "outcome"); outcome != "Failed" && outcome != "CompletedWithoutResult" {
		return fmt.Sprintf("a failure is counted for attempt %d, which ended as %s", n, outcome)
	}
	if write.New.Int("status", "yield", "attempt") == n && write.New.Text("status", "yield", "cause") != "Disruption" {
		return fmt.Sprintf("a failure is counted for attempt %d, which was asked to yield (%s)", n, write.New.Text("status", "yield", "cause"))
	}
	return ""
}

// byUs tells whether rtj wrote.
func byUs(by string) bool { return len(by) >= 3 && by[:3] == "rtj" }

// forced are the attempts that were given up.
func (l *life) forced() (numbers []int64) { return forcedOf(l.job) }

func forcedOf(job *apiserver.Object) (numbers []int64) {
	for _, item := range job.List("status", "forced") {
		if f, ok := item.(map[string]any); ok {
			n, _ := f["attempt"].(int64)
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func isForced(job *apiserver.Object, n int64) bool { return slices.Contains(forcedOf(job), n) }

func (l *life) isForced(n int64) bool { return isForced(l.job, n) }
