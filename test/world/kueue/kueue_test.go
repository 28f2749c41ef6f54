package kueue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/kueue"
)

func TestAdmitsInOrderOfPriorityThenAge(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.workload("old", 2, 0)
	f.workload("high", 2, 10)
	if names := f.offered(); !slices.Equal(names, []string{"kueue: admit team/high"}) {
		t.Fatalf("offered %q", names)
	}
	f.settle()
	f.is("high", "QuotaReserved=True/QuotaReserved", "Admitted=True/Admitted")
	f.is("old", "QuotaReserved=False/Pending", "Admitted=")
	f.given("high", "gold", 2)
	f.used("gold", 2)
}

func TestSmallerOnesPassWhatHasNoRoom(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=3")
	f.workload("runs", 2, 0)
	f.settle()
	f.workload("large", 3, 0)
	f.workload("small", 1, 0)
	f.settle()
	f.is("large", "QuotaReserved=False/Pending")
	f.is("small", "Admitted=True")
}

func TestWhatAsksForTheSameIsNotTried(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=1")
	f.workload("first", 2, 0)
	f.workload("second", 2, 0)
	f.settle()
	f.is("first", "QuotaReserved=False/Pending")
	f.is("second", "QuotaReserved=")
}

func TestFlavorsAreTriedInOrder(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2", "silver=4")
	f.workload("a", 2, 0)
	f.workload("b", 2, 0)
	f.workload("c", 2, 0, func(spec object) {
		template := spec["podSets"].([]any)[0].(object)["template"].(object)["spec"].(object)
		template["nodeSelector"] = object{"pool": "gold"}
	})
	f.settle()
	f.given("a", "gold", 2)
	f.given("b", "silver", 2)
	f.is("c", "QuotaReserved=False/Pending")
}

func TestPartialAdmission(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=5")
	f.workload("whole", 8, 0)
	f.workload("partial", 8, 0, func(spec object) { spec["podSets"].([]any)[0].(object)["minCount"] = int64(2) })
	f.settle()
	f.given("partial", "gold", 5)
	f.is("whole", "QuotaReserved=False/Pending")
	if got := f.get("partial").At("spec", "podSets").([]any)[0].(object)["count"]; got != int64(8) {
		t.Errorf("the count asked for became %v", got)
	}
}

func TestPreemptionWaitsForTheRelease(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.workload("victim", 2, 0)
	f.settle()
	f.workload("high", 2, 10)
	f.workload("later", 1, 5)
	f.settle()
	f.is("victim", "Evicted=True/Preempted", "Preempted=True/InClusterQueue", "QuotaReserved=True", "Admitted=True", "Requeued=")
	f.is("high", "QuotaReserved=False/Pending")
	f.used("gold", 2)
	// The preemptor stays at the head, so nobody else is even tried.
	f.is("later", "QuotaReserved=")
	f.now = f.now.Add(time.Hour)
	if names := f.offered(); len(names) > 0 {
		t.Fatalf("offered during the drain: %q", names)
	}
	f.release("victim", "Pending", "True", "Preempted")
	f.settle()
	f.is("high", "Admitted=True")
	f.is("victim", "QuotaReserved=False/Pending", "Evicted=True/Preempted", "Requeued=True/Preempted")
	f.must(f.api.Delete("test", "Workload", "team", "high", apiserver.Deletion{}))
	f.settle()
	// It has kept its place but not its precedence.
	f.is("later", "Admitted=True")
	f.must(f.api.Delete("test", "Workload", "team", "later", apiserver.Deletion{}))
	f.settle()
	f.is("victim", "Admitted=True", "Evicted=False/QuotaReserved", "Preempted=False/QuotaReserved", "Requeued=True/Preempted")
}

func TestAPreemptorStaysAheadOfWhatComesLater(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=3")
	f.workload("victim", 2, 0)
	f.settle()
	f.workload("preemptor", 3, 10)
	f.settle()
	f.workload("higher", 1, 20)
	f.settle()
	f.is("higher", "QuotaReserved=")
	f.release("victim", "Pending", "True", "Preempted")
	f.settle()
	f.is("preemptor", "QuotaReserved=True")
}

func TestDeactivationMakesRoomForWhatWaits(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.workload("a", 2, 0)
	f.workload("waits", 2, 0)
	f.settle()
	f.must(f.Deactivate("team", "a"))
	f.settle()
	f.is("waits", "Admitted=True")
}

func TestVictimsThatDrainAlreadyCountFirst(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=4")
	f.workload("drains", 2, 5)
	f.workload("lowest", 2, 0)
	f.settle()
	f.must(f.Evict("team", "drains", kueue.NodeFailures))
	f.workload("high", 2, 10)
	f.settle()
	f.is("lowest", "Evicted=")
	f.is("drains", "Evicted=True/NodeFailures", "Preempted=")
}

func TestEqualPriorityIsPreemptedByPolicyOnly(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	_, err := f.api.Patch("admin", "ClusterQueue", "", "cluster", object{"spec": object{"preemption": object{"withinClusterQueue": "LowerOrNewerEqualPriority"}}}, "")
	f.must(err)
	f.workload("older", 2, 0)
	f.must(f.StopLocalQueue("team", "queue", "Hold"))
	f.must(f.StopLocalQueue("team", "queue", "None"))
	// Only the newer one is queued at first.
	f.set("older", "QuotaReserved", "False", "OnHold")
	f.workload("newer", 2, 0)
	f.settle()
	f.is("newer", "Admitted=True")
	f.set("older", "QuotaReserved", "False", "Pending")
	f.settle()
	f.is("newer", "Evicted=True/Preempted")
}

func TestReasonsOfRequeued(t *testing.T) {
	// Only Kueue's own reasons are flipped back, each by its own cause.
	for reason, flips := range map[string]bool{
		kueue.AdmissionCheck: true, kueue.PodsReadyTimeout: true, kueue.Deactivated: true,
		kueue.LocalQueueStopped: true, kueue.ClusterQueueStopped: true,
		kueue.Preempted: false, kueue.NodeFailures: false, "DeactivatedDueToAdmissionCheck": false,
	} {
		f := newFixture(t, kueue.Config{}, "gold=2")
		f.workload("w", 2, 0)
		f.settle()
		f.must(f.Evict("team", "w", kueue.Preempted))
		f.release("w", "Pending", "False", reason)
		f.settle()
		if got := f.get("w").True("Admitted"); got != flips {
			t.Errorf("Requeued=False/%s: admitted again is %v, want %v", reason, got, flips)
		}
	}
}

func TestOnHoldStaysOut(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.workload("w", 2, 0)
	f.settle()
	f.release("w", "OnHold", "", "")
	f.settle()
	f.used("gold", 0)
	f.is("w", "QuotaReserved=False/OnHold", "Admitted=False/NoReservation")
	f.must(f.StopClusterQueue("cluster", "Hold"))
	f.settle()
	f.is("w", "QuotaReserved=False/Inadmissible")
	f.must(f.StopClusterQueue("cluster", "None"))
	f.settle()
	f.is("w", "Admitted=True")
}

func TestStopPolicies(t *testing.T) {
	stop := map[string]func(f *fixture, policy string) error{
		kueue.LocalQueueStopped:   func(f *fixture, policy string) error { return f.StopLocalQueue("team", "queue", policy) },
		kueue.ClusterQueueStopped: func(f *fixture, policy string) error { return f.StopClusterQueue("cluster", policy) },
	}
	for reason, policy := range stop {
		t.Run(reason, func(t *testing.T) {
			f := newFixture(t, kueue.Config{}, "gold=2")
			f.workload("w", 2, 0)
			f.settle()
			f.must(policy(f, "Hold"))
			f.workload("waits", 2, 0)
			f.settle()
			f.is("w", "Evicted=", "Admitted=True")
			f.is("waits", "QuotaReserved=False/Inadmissible")
			f.must(policy(f, "HoldAndDrain"))
			f.settle()
			f.is("w", "Evicted=True/"+reason, "Admitted=True")
			f.release("w", "Pending", "False", reason)
			f.settle()
			f.used("gold", 0)
			f.is("w", "QuotaReserved=False/Inadmissible", "Requeued=False/"+reason)
			f.must(policy(f, "None"))
			f.settle()
			restarted := strings.TrimSuffix(reason, "Stopped") + "Restarted"
			f.is("w", "Admitted=True", "Requeued=True/"+restarted)
		})
	}
}

func TestQueuesReportWhetherTheyAdmit(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	condition := func(kind, namespace, name string) string {
		c := f.api.Get(kind, namespace, name).Condition("Active")
		return c["status"].(string) + "/" + c["reason"].(string)
	}
	f.must(f.StopClusterQueue("cluster", "Hold"))
	f.settle()
	if got := condition("ClusterQueue", "", "cluster") + " " + condition("LocalQueue", "team", "queue"); got != "False/Stopped False/ClusterQueueIsInactive" {
		t.Errorf("stopped: %s", got)
	}
	f.must(f.StopClusterQueue("cluster", "None"))
	f.must(f.api.Delete("admin", "ResourceFlavor", "", "gold", apiserver.Deletion{}))
	f.settle()
	if got := condition("ClusterQueue", "", "cluster"); got != "False/FlavorNotFound" {
		t.Errorf("without its flavor: %s", got)
	}
}

func TestMissingQueue(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.workload("w", 2, 0, func(spec object) { spec["queueName"] = "later" })
	f.settle()
	f.is("w", "QuotaReserved=False/Inadmissible")
	f.create(object{"kind": "LocalQueue", "metadata": object{"namespace": "team", "name": "later"}, "spec": object{"clusterQueue": "cluster"}})
	f.settle()
	f.is("w", "Admitted=True")
	// What is admitted stays so without its LocalQueue.
	f.must(f.api.Delete("admin", "LocalQueue", "team", "later", apiserver.Deletion{}))
	f.settle()
	f.is("w", "Admitted=True", "Evicted=")
}

func TestDeactivation(t *testing.T) {
	for _, releases := range []bool{true, false} {
		f := newFixture(t, kueue.Config{}, "gold=2")
		f.workload("w", 2, 0)
		f.settle()
		f.must(f.Deactivate("team", "w"))
		// The quota is free at once, though the conditions say otherwise.
		f.used("gold", 0)
		f.is("w", "QuotaReserved=True", "Admitted=True", "Evicted=True/Deactivated")
		f.workload("other", 2, 0)
		f.settle()
		f.is("other", "Admitted=True")
		if releases {
			f.release("w", "Pending", "False", kueue.Deactivated)
		}
		f.must(f.Activate("team", "w"))
		f.settle()
		if releases {
			f.is("w", "QuotaReserved=False/Pending", "Requeued=True/Reactivated")
			f.used("gold", 2)
		} else {
			// The old admission counts again, beyond the quota, and nothing ends that.
			f.is("w", "QuotaReserved=True", "Admitted=True", "Evicted=True/Deactivated")
			f.used("gold", 4)
		}
	}
}

func TestPodsReadyTimeout(t *testing.T) {
	limit := int32(2)
	config := kueue.Config{PodsReady: &kueue.PodsReady{
		Timeout: 5 * time.Minute, RecoveryTimeout: time.Minute, BackoffBase: time.Minute, BackoffMax: time.Hour, BackoffLimit: &limit,
	}}
	f := newFixture(t, config, "gold=2")
	f.workload("w", 2, 0)
	f.settle()
	if next := f.Next(); !next.Equal(f.now.Add(5 * time.Minute)) {
		t.Errorf("next is %s, it is %s", next, f.now)
	}
	for count := int64(1); count <= 2; count++ {
		f.now = f.now.Add(5 * time.Minute)
		f.settle()
		f.is("w", "Evicted=True/PodsReadyTimeout", "Admitted=True")
		until := f.now.Add(time.Minute << (count - 1)).Format(time.RFC3339)
		if got := f.get("w").At("status", "requeueState").(object); got["count"] != count || got["requeueAt"] != until {
			t.Fatalf("requeueState is %v, want %d and %s", got, count, until)
		}
		f.release("w", "Pending", "False", kueue.PodsReadyTimeout)
		f.settle()
		f.is("w", "QuotaReserved=False/Pending", "Requeued=False/PodsReadyTimeout")
		f.now = f.Next()
		f.settle()
		f.is("w", "Admitted=True", "Requeued=True/BackoffFinished", "Evicted=False")
		if got := f.get("w").At("status", "requeueState").(object); got["count"] != count || got["requeueAt"] != nil {
			t.Fatalf("requeueState after the back-off is %v", got)
		}
	}
	f.now = f.now.Add(5 * time.Minute)
	f.settle()
	f.is("w", "Evicted=True/DeactivatedDueToRequeuingLimitExceeded", "DeactivationTarget=")
	if f.get("w").At("spec", "active") != false || f.get("w").At("status", "requeueState") != nil {
		t.Errorf("active is %v, requeueState %v", f.get("w").At("spec", "active"), f.get("w").At("status", "requeueState"))
	}
}

func TestWhatPodsReadyMeans(t *testing.T) {
	config := kueue.Config{PodsReady: &kueue.PodsReady{Timeout: 5 * time.Minute, RecoveryTimeout: time.Minute, BackoffBase: time.Minute, BackoffMax: time.Hour}}
	for reason, after := range map[string]time.Duration{"WaitForStart": 3 * time.Minute, "WaitForRecovery": time.Minute, "Other": 0} {
		f := newFixture(t, config, "gold=2")
		f.workload("w", 2, 0)
		f.settle()
		f.set("w", "PodsReady", "True", "Started")
		if next := f.Next(); !next.IsZero() {
			t.Errorf("ready: next is %s", next)
		}
		f.now = f.now.Add(2 * time.Minute)
		f.set("w", "PodsReady", "False", reason)
		want := time.Time{}
		if after > 0 {
			want = f.now.Add(after)
		}
		if next := f.Next(); !next.Equal(want) {
			t.Errorf("%s: next is %s, want %s", reason, next, want)
		}
	}
}

func TestAdmissionChecks(t *testing.T) {
	f := newFixture(t, kueue.Config{Checks: map[string][]any{"prov": {object{"name": "workers", "nodeSelector": object{"node": "new"}}}}}, "gold=2")
	f.check("prov")
	f.workload("w", 2, 0)
	f.settle()
	f.is("w", "QuotaReserved=True", "Admitted=")
	f.must(f.Admit("team", "w"))
	f.is("w", "Admitted=True")
	check := func() object { return f.get("w").List("status", "admissionChecks")[0].(object) }
	if check()["podSetUpdates"] == nil {
		t.Error("Ready brought no podSetUpdates")
	}
	f.must(f.Check("team", "w", "prov", "Retry"))
	f.settle()
	f.is("w", "Evicted=True/AdmissionCheck", "Admitted=True")
	if c := check(); c["state"] != "Pending" || c["retryCount"] != int64(1) {
		t.Errorf("after the eviction the check is %v", c)
	}
	f.release("w", "Pending", "False", kueue.AdmissionCheck)
	f.settle()
	f.is("w", "QuotaReserved=True", "Admitted=False", "Requeued=True/BackoffFinished")
	f.must(f.Check("team", "w", "prov", "Rejected"))
	f.settle()
	f.is("w", "Evicted=True/DeactivatedDueToAdmissionCheck")
	if f.get("w").At("spec", "active") != false {
		t.Error("a rejected Workload is active")
	}
	f.used("gold", 0)
}

func TestStoppingTakesBackWhatWaitsForChecks(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.check("prov")
	f.workload("w", 2, 0)
	f.settle()
	f.must(f.StopClusterQueue("cluster", "Hold"))
	f.settle()
	f.is("w", "QuotaReserved=False/Inadmissible", "Evicted=")
	f.used("gold", 0)
}

func TestPriorityOfAClass(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.create(object{"kind": "WorkloadPriorityClass", "metadata": object{"name": "class"}, "value": int64(10)})
	f.settle()
	ref := object{"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "class"}
	f.workload("w", 2, 77, func(spec object) { spec["priorityClassRef"] = ref })
	f.settle()
	if got := f.get("w").Int("spec", "priority"); got != 77 {
		t.Errorf("the priority became %d without a change of the class", got)
	}
	_, err := f.api.Patch("admin", "WorkloadPriorityClass", "", "class", object{"value": int64(20)}, "")
	f.must(err)
	f.settle()
	if got := f.get("w").Int("spec", "priority"); got != 20 {
		t.Errorf("the priority is %d, the class has 20", got)
	}
}

func TestFinishedAndDeletedFreeQuota(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.workload("a", 2, 0)
	f.settle()
	f.set("a", "Finished", "True", "Succeeded")
	f.used("gold", 0)
	f.is("a", "QuotaReserved=True", "Admitted=True")
	f.workload("b", 2, 0)
	f.settle()
	f.is("b", "Admitted=True")
	f.must(f.api.Delete("test", "Workload", "team", "b", apiserver.Deletion{}))
	f.used("gold", 0)
}

// As seen on a cluster: what comes into the queues with its LocalQueue is nominated
// though Requeued=False, and the admission repeats that after Kueue has flipped it.
func TestARestartedLocalQueueTriesAll(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=2")
	f.workload("w", 2, 0)
	f.settle()
	f.must(f.StopLocalQueue("team", "queue", "HoldAndDrain"))
	f.settle()
	f.release("w", "Pending", "False", kueue.LocalQueueStopped)
	f.settle()
	f.must(f.StopLocalQueue("team", "queue", "None"))
	f.must(f.Do("kueue: nominate team/w"))
	f.must(f.Do("kueue: requeue team/w"))
	f.is("w", "Requeued=True/LocalQueueRestarted")
	f.must(f.Do("kueue: admit team/w"))
	f.is("w", "Admitted=True", "Requeued=False/LocalQueueStopped")
	f.settle()
	f.is("w", "Admitted=True", "Requeued=True/LocalQueueRestarted")
}

// As seen on a cluster: the admission takes away what Kueue wrote after the nomination.
func TestAnOrphanIsFinishedTwice(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=2")
	f.create(object{"kind": "Workload", "metadata": object{"namespace": "team", "name": "w", "labels": object{"kueue.x-k8s.io/job-uid": "gone"}},
		"spec": object{"queueName": "queue", "priority": int64(0), "podSets": []any{podSet("workers", 2)}}})
	f.must(f.Do("kueue: nominate team/w"))
	f.must(f.Do("kueue: finish the orphan team/w"))
	f.must(f.Do("kueue: admit team/w"))
	f.is("w", "Finished=", "Admitted=True")
	f.settle()
	f.is("w", "Finished=True/OwnerNotFound")
	f.used("gold", 0)
}

func TestRefusals(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=4")
	f.create(object{"kind": "WorkloadPriorityClass", "metadata": object{"name": "class"}, "value": int64(10)})
	ref := object{"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "class"}
	f.workload("w", 2, 0, func(spec object) { spec["priorityClassRef"] = ref })
	f.must(f.spec("w", object{"podSets": []any{podSet("workers", 4)}, "queueName": "queue"}))
	f.settle()
	f.is("w", "Admitted=True")
	refused := map[string]object{
		"larger podSets":    {"podSets": []any{podSet("workers", 5)}},
		"another name":      {"podSets": []any{podSet("others", 4)}},
		"more podSets":      {"podSets": []any{podSet("workers", 4), podSet("more", 1)}},
		"another queue":     {"queueName": "other"},
		"no priority class": {"priorityClassRef": nil},
		"another kind":      {"priorityClassRef": object{"kind": "PriorityClass", "group": "scheduling.k8s.io"}},
	}
	for what, spec := range refused {
		if err := f.spec("w", spec); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	allowed := map[string]object{
		"fewer pods":        {"podSets": []any{podSet("workers", 3)}},
		"another class":     {"priorityClassRef": object{"name": "other"}, "priority": int64(5)},
		"another priority":  {"priority": int64(7)},
		"not to be active":  {"active": false},
		"to be active":      {"active": true},
		"the same podSets":  {"podSets": []any{podSet("workers", 3)}},
		"nothing different": {},
	}
	for _, what := range []string{"fewer pods", "another class", "another priority", "not to be active", "to be active", "the same podSets", "nothing different"} {
		if err := f.spec("w", allowed[what]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	status := map[string]object{
		"an edited admission":           {"admission": object{"clusterQueue": "other"}},
		"a reservation without any":     {"admission": nil},
		"a condition without a reason":  {"conditions": []any{object{"type": "X", "status": "True"}}},
		"an assignment that is unknown": {"admission": object{"podSetAssignments": []any{object{"name": "unknown"}}}},
	}
	for what, s := range status {
		if _, err := f.api.Patch("job", "Workload", "team", "w", object{"status": s}, apiserver.Status); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCreationIsValidated(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=4")
	for what, change := range map[string]func(spec object){
		"no podSets":          func(spec object) { spec["podSets"] = []any{} },
		"two of a name":       func(spec object) { spec["podSets"] = []any{podSet("a", 1), podSet("a", 1)} },
		"class, no priority":  func(spec object) { delete(spec, "priority"); spec["priorityClassRef"] = object{"name": "x"} },
		"minCount over count": func(spec object) { spec["podSets"].([]any)[0].(object)["minCount"] = int64(9) },
	} {
		spec := object{"queueName": "queue", "priority": int64(0), "podSets": []any{podSet("workers", 2)}}
		change(spec)
		_, err := f.api.Create("job", object{"kind": "Workload", "metadata": object{"namespace": "team", "name": "w"}, "spec": spec})
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestARestartRemembersWhatIsWritten(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=2")
	f.workload("a", 2, 0)
	f.workload("b", 2, 0)
	f.settle()
	f.Restart()
	f.used("gold", 2)
	f.settle()
	f.is("a", "Admitted=True")
	f.is("b", "QuotaReserved=False/Pending")
}

func TestClonesGoTheirOwnWay(t *testing.T) {
	f := newFixture(t, kueue.Config{Late: true}, "gold=2")
	f.workload("w", 2, 0)
	f.must(f.Do("kueue: nominate team/w"))
	clock := func() time.Time { return f.now }
	api := f.api.Clone(clock)
	clone := f.Clone(kueue.Env{API: api, Now: clock})
	f.must(clone.Do("kueue: admit team/w"))
	if f.get("w").True("QuotaReserved") {
		t.Error("an admission in the clone shows")
	}
	if !api.Get("Workload", "team", "w").True("QuotaReserved") {
		t.Error("the clone did not admit")
	}
	if names := f.offered(); !slices.Equal(names, []string{"kueue: admit team/w"}) {
		t.Errorf("offered %q", names)
	}
}
