package kueue_test

import (
	"slices"
	"testing"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/kueue"
)

func TestAnAdmissionLandsLate(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=4")
	o := f.workload("w", 2, 0)
	f.must(f.Do("kueue: nominate team/w"))
	f.used("gold", 2)
	f.must(f.spec("w", object{"podSets": []any{podSet("workers", 3)}}))
	if names := f.offered(); !slices.Equal(names, []string{"kueue: admit team/w"}) {
		t.Fatalf("offered %q", names)
	}
	f.must(f.Do("kueue: admit team/w"))
	f.given("w", "gold", 2)
	c := f.get("w").Condition("QuotaReserved")
	if c["observedGeneration"] != o.Generation || f.get("w").Generation == o.Generation {
		t.Errorf("observed generation is %v, the Workload is at %d", c["observedGeneration"], f.get("w").Generation)
	}
}

func TestAnAdmissionLandsOverAHold(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=4")
	f.workload("w", 2, 0)
	f.must(f.Do("kueue: nominate team/w"))
	f.set("w", "QuotaReserved", "False", "OnHold")
	f.must(f.Do("kueue: admit team/w"))
	f.is("w", "QuotaReserved=True", "Admitted=True")
}

func TestAnAdmissionOfOtherPodSetsIsRefused(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=4")
	f.workload("w", 2, 0)
	f.must(f.Do("kueue: nominate team/w"))
	f.must(f.spec("w", object{"podSets": []any{podSet("others", 3)}}))
	f.must(f.Do("kueue: admit team/w"))
	f.is("w", "QuotaReserved=")
	f.settle()
	f.given("w", "gold", 3)
}

func TestADeletedWorkloadIsNotAdmitted(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=4")
	f.workload("w", 2, 0)
	f.must(f.Do("kueue: nominate team/w"))
	f.must(f.api.Delete("test", "Workload", "team", "w", apiserver.Deletion{}))
	again := f.workload("w", 2, 0)
	f.must(f.Do("kueue: admit team/w"))
	if o := f.get("w"); o.UID != again.UID || o.True("QuotaReserved") {
		t.Errorf("the admission of another Workload of the same name landed: %v", o.At("status"))
	}
	f.settle()
	f.is("w", "Admitted=True")
	f.used("gold", 2)
}

func TestALateEvictionBringsAReleasedAdmissionBack(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=2")
	f.workload("victim", 2, 0)
	f.settle()
	f.workload("high", 2, 10)
	f.must(f.Do("kueue: preempt for team/high"))
	f.release("victim", "OnHold", "", "")
	f.must(f.Do("kueue: evict team/victim, preempted"))
	// It repeats what it saw, the reservation too.
	f.is("victim", "Evicted=True/Preempted", "QuotaReserved=True", "Admitted=True")
}

// Whom the scheduler preempts it takes as it admitted it, written or not: an eviction that
// lands after the admission, and after the job began upon it, leaves it the quota.
func TestAnAdmissionThatIsNotWrittenYetIsEvictedAsAdmitted(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=2")
	f.workload("victim", 2, 0)
	f.must(f.Do("kueue: nominate team/victim"))
	f.workload("high", 2, 10)
	f.must(f.Do("kueue: preempt for team/high"))
	f.must(f.Do("kueue: admit team/victim"))
	f.is("victim", "QuotaReserved=True", "Admitted=True")
	f.must(f.Do("kueue: evict team/victim, preempted"))
	f.is("victim", "Evicted=True/Preempted", "QuotaReserved=True", "Admitted=True")
	f.given("victim", "gold", 2)
}

func TestALateRefusalLandsOverAHold(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=1")
	f.workload("w", 2, 0)
	f.must(f.Do("kueue: find no room for team/w"))
	f.set("w", "QuotaReserved", "False", "OnHold")
	f.must(f.Do("kueue: tell team/w that it waits"))
	f.is("w", "QuotaReserved=False/Pending")
}
