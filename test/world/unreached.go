package world

import (
	"fmt"
	"maps"
	"slices"

	"rtj.dev/rtj/compose"
)

// Why a rule decides nothing in these worlds.
const (
	byPeople     = "it takes more than one act of people, or one after a fault: to go back to what an earlier attempt committed"
	byOthers     = "nobody reaches into what rtj made: no Workload or JobSet is deleted, started, suspended, finished or deactivated by others"
	keptWorkload = "the Workload of a job is kept from the first sync on, so what concerns one that has none comes only to one that was paused, given up or reached into, while its store was not readable or its last attempt not judged"
	moreFaults   = "it takes more than one fault: a second failure while the first is dealt with, four in a row, or 99,999 attempts"
	otherSetting = "the administrators of these worlds have no AdmissionChecks and no LocalQueue default"
	damagedStore = "no object of the store is lost or damaged, and every checkpoint fits"
	withoutSDK   = "the workers use the SDK"
	longTraining = "trainings are shorter than the five minutes after which the pods of a lost node are evicted"
)

// Unreached are the rules that decide nothing in the small worlds that are explored,
// as "table rule", with the reason.
var Unreached = map[string]string{
	"yield RolledBack": byPeople,

	"attempt-jobset StartedAgain":     byOthers,
	"end LeaderLeftBehind":            byOthers,
	"finish AttemptNotEnded":          byOthers,
	"outcome SuspendedByOthers":       byOthers,
	"phase RunsThoughEnded":           byOthers,
	"phase Deactivated":               byOthers,
	"release Deactivated":             byOthers,
	"release WorkloadGoes":            byOthers,
	"workload FinishedByOthers":       byOthers,
	"workload AttemptStands":          byOthers,
	"yield JobIsOver":                 byOthers,
	"yield WorkersLeftAndPodsHang":    byOthers,
	"yield WorkloadGone":              byOthers,
	"yield Deactivated":               byOthers,
	"yield ClaimNotOfThisReservation": byOthers,

	"phase VerdictPending":      keptWorkload,
	"phase StoreNotRead":        keptWorkload,
	"phase StoreUnreadable":     keptWorkload,
	"workload VerdictPending":   keptWorkload,
	"workload EndsHere":         keptWorkload,
	"workload EndNotRemembered": keptWorkload,

	"attempt-jobset NotRemembered": moreFaults,
	"end NoJobWasMade":             moreFaults,
	"finish Failed":                moreFaults,
	"launch AttemptsExhausted":     moreFaults,
	"yield SuspendedWithoutJobs":   moreFaults,
	"outcome ExitCodeOfAYield":     moreFaults,
	"phase FailureBudgetSpent":     moreFaults,
	"phase AttemptsExhausted":      moreFaults,

	"launch AdmissionChecks":     otherSetting,
	"launch PodsWouldBeCaptured": otherSetting,
	"phase AdmissionChecks":      otherSetting,

	"launch NoCompatibleCheckpoint":  damagedStore,
	"outcome RestoreFailed":          damagedStore,
	"outcome HungAfterFailedRestore": damagedStore,
	"outcome HungAfterFailure":       moreFaults,
	"phase RestoreFailing":           damagedStore,

	"outcome CompletedWithoutSDK": withoutSDK,

	"yield PodsEndedUnasked": longTraining,
}

// besideTables is what the core decides and notes in the form of a rule that is in no
// table: it is not counted.
const besideTables = "release LeftoverWorkload"

// Reached counts the rules of the core's tables that decided, and all that there are.
func (c *Coverage) Reached() (decided, all int) {
	for table, names := range compose.Tables() {
		for _, name := range names {
			all++
			if c.Rules[table+" "+name] > 0 {
				decided++
			}
		}
	}
	return decided, all
}

// JudgeCoverage tells what is wrong with the coverage of all small worlds: rules that
// neither decided nor are known not to, those that are said not to and did, and those
// that are in no table.
func JudgeCoverage(c Coverage) (wrong []string) {
	known := map[string]bool{}
	for _, table := range slices.Sorted(maps.Keys(compose.Tables())) {
		for _, name := range compose.Tables()[table] {
			rule := table + " " + name
			known[rule] = true
			why, listed := Unreached[rule]
			switch decided := c.Rules[rule] > 0; {
			case decided && listed:
				wrong = append(wrong, fmt.Sprintf("rule %s decided, and is listed as one that cannot: %s", rule, why))
			case !decided && !listed:
				wrong = append(wrong, fmt.Sprintf("rule %s never decided, and no reason is listed", rule))
			}
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(c.Rules)) {
		if !known[rule] && rule != besideTables {
			wrong = append(wrong, fmt.Sprintf("rule %s decided, and is in no table", rule))
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(Unreached)) {
		if !known[rule] {
			wrong = append(wrong, fmt.Sprintf("there is no rule %s", rule))
		}
	}
	return wrong
}
