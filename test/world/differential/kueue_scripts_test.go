//go:build e2e

package differential

import (
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/cluster"
	"rtj.dev/rtj/test/world/kueue"
)

// TestKueue runs scripts on Kueue as it is installed.
func TestKueue(t *testing.T) {
	c := startCluster(t, cluster.Options{})
	config := kueue.Defaults()
	config.Late = true
	p := kueuePart(config)
	for name, script := range map[string]func(l *lockstep){
		"admission":                  admission,
		"flavors":                    flavors,
		"partial admission":          partialAdmission,
		"preemption":                 preemption,
		"choice of victims":          choiceOfVictims,
		"draining victims":           drainingVictims,
		"equal priority":             equalPriority,
		"stopped LocalQueue":         func(l *lockstep) { stoppedQueue(l, "LocalQueue") },
		"stopped ClusterQueue":       func(l *lockstep) { stoppedQueue(l, "ClusterQueue") },
		"overlooked":                 overlooked,
		"deactivation":               deactivation,
		"reactivation over itself":   reactivationOverItself,
		"on hold":                    onHold,
		"on hold in a stopped queue": onHoldInAStoppedQueue,
		"requeued or not":            requeuedOrNot,
		"checks":                     checks,
		"checks and stopped queues":  checksAndStoppedQueues,
		"priority classes":           priorityClasses,
		"end":                        end,
		"missing queue":              missingQueue,
		"deleted ClusterQueue":       deletedClusterQueue,
		"orphan":                     orphan,
		"gated":                      gated,
		"fewer pods":                 fewerPods,
		"edits while pending":        editsWhilePending,
		"execution time":             executionTime,
		"refusals":                   refusals,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.run(t, c, script)
		})
	}
}

// TestKueuePodsReady runs scripts on a Kueue with short waits.
func TestKueuePodsReady(t *testing.T) {
	c := startCluster(t, cluster.Options{KueueConfig: map[string]any{"waitForPodsReady": map[string]any{
		"timeout": "8s", "recoveryTimeout": "6s",
		"requeuingStrategy": map[string]any{"backoffBaseSeconds": 6, "backoffLimitCount": 2},
	}}})
	limit := int32(2)
	p := kueuePart(kueue.Config{Late: true, PodsReady: &kueue.PodsReady{
		Timeout: 8 * time.Second, RecoveryTimeout: 6 * time.Second, BackoffBase: 6 * time.Second, BackoffMax: time.Hour, BackoffLimit: &limit,
	}})
	for name, script := range map[string]func(l *lockstep){
		"never ready":       neverReady,
		"recovery":          recovery,
		"no reason to wait": noReasonToWait,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.run(t, c, script)
		})
	}
}

func admission(l *lockstep) {
	s := begin(l, "gold=4")
	s.admit("a", 2, 0)
	s.admit("large", 4, 0)
	s.admit("small", 1, 0)
	s.admit("twin", 4, 0) // is not even tried
	s.remove("Workload", "a")
	s.remove("Workload", "small")
	s.remove("Workload", "large")
}

func flavors(l *lockstep) {
	s := begin(l, "gold=2", "silver=4")
	s.admit("a", 2, 0)
	s.admit("b", 2, 0)
	s.admit("only-gold", 1, 0, func(o object) {
		set := at(o, "spec", "podSets").([]any)[0].(object)
		at(set, "template", "spec").(object)["nodeSelector"] = object{"pool": "gold"}
	})
	// Preemption in the first is tried only when the second does not fit.
	s.admit("high", 2, 10)
	s.admit("higher", 2, 20)
	s.release("a", "Pending", "True", "Preempted")
}

func partialAdmission(l *lockstep) {
	s := begin(l, "gold=5")
	fewest := func(n int64) func(object) {
		return func(o object) { at(o, "spec", "podSets").([]any)[0].(object)["minCount"] = n }
	}
	s.admit("partial", 8, 0, fewest(2))
	s.admit("later", 4, 0, fewest(3))
	s.remove("Workload", "partial")
	s.admit("high", 8, 10, fewest(4))
	s.release("later", "Pending", "True", "Preempted")
}

func preemption(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("victim", 2, 0)
	s.admit("high", 2, 10)
	s.admit("between", 1, 5)
	s.release("victim", "Pending", "True", "Preempted")
	s.condition("high", "Finished", "True", "Succeeded")
	s.remove("Workload", "between")
}

func choiceOfVictims(l *lockstep) {
	s := begin(l, "gold=6")
	s.admit("older", 2, 0)
	s.admit("newer", 2, 0)
	s.admit("other", 2, 5)
	s.admit("high", 3, 10)
	s.release("newer", "Pending", "True", "Preempted")
	s.release("older", "Pending", "True", "Preempted")
}

// drainingVictims: what drains for another reason is enough, though its priority is
// higher than others'.
func drainingVictims(l *lockstep) {
	s := begin(l, "gold=4")
	s.make(object{"kind": "LocalQueue", "metadata": object{"namespace": s.namespace(), "name": "drains"}, "spec": object{"clusterQueue": s.cluster()}})
	s.rest()
	s.admit("other", 2, 0)
	s.admit("drains", 2, 5, func(o object) { o["spec"].(object)["queueName"] = "drains" })
	s.must(s.patch("LocalQueue", "drains", object{"spec": object{"stopPolicy": "HoldAndDrain"}}, ""))
	s.rest()
	s.admit("high", 2, 10)
	s.release("drains", "Pending", "False", "LocalQueueStopped")
}

func equalPriority(l *lockstep) {
	s := begin(l, "gold=2")
	s.must(s.patch("ClusterQueue", s.cluster(), object{"spec": object{"preemption": object{"withinClusterQueue": "LowerOrNewerEqualPriority"}}}, ""))
	s.rest()
	s.admit("older", 2, 0)
	s.release("older", "OnHold")
	s.admit("newer", 2, 0)
	s.condition("older", "QuotaReserved", "False", "Pending")
	s.release("newer", "Pending", "True", "Preempted")
}

func stoppedQueue(l *lockstep, kind string) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.stop(kind, "Hold")
	s.admit("b", 2, 0)
	s.stop(kind, "HoldAndDrain")
	s.release("a", "Pending", "False", kind+"Stopped")
	s.stop(kind, "None")
}

// overlooked: what was in the way of b's shape goes while the LocalQueue is stopped.
// Nobody tells the ClusterQueue, which has c wait for another end.
func overlooked(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.admit("b", 2, 0)
	s.stop("LocalQueue", "HoldAndDrain")
	s.remove("Workload", "b")
	s.release("a", "Pending", "False", "LocalQueueStopped")
	s.remove("Workload", "a")
	s.stop("LocalQueue", "None")
	s.admit("c", 2, 0)
}

func deactivation(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.spec("a", object{"active": false})
	s.admit("b", 2, 0)
	s.release("a", "Pending", "False", "Deactivated")
	s.remove("Workload", "b")
	s.spec("a", object{"active": true})
}

func reactivationOverItself(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.spec("a", object{"active": false})
	s.admit("b", 2, 0)
	s.spec("a", object{"active": true})
	s.remove("Workload", "b")
	s.admit("c", 1, 0) // a holds all
	s.release("a", "Pending", "False", "Deactivated")
}

func onHold(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.release("a", "OnHold")
	s.admit("b", 2, 0)
	s.condition("a", "QuotaReserved", "False", "Pending")
	s.remove("Workload", "b")
}

func onHoldInAStoppedQueue(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.release("a", "OnHold")
	s.stop("ClusterQueue", "Hold")
	s.stop("ClusterQueue", "None")
	s.release("a", "OnHold")
	s.stop("LocalQueue", "HoldAndDrain")
	s.stop("LocalQueue", "None")
}

func requeuedOrNot(l *lockstep) {
	s := begin(l, "gold=8")
	for _, reason := range []string{"Deactivated", "PodsReadyTimeout", "AdmissionCheck", "Preempted", "NodeFailures", "DeactivatedDueToAdmissionCheck", "LocalQueueStopped", "ClusterQueueStopped"} {
		name := strings.ToLower(reason)
		s.admit(name, 1, 0)
		s.release(name, "Pending", "False", reason)
	}
}

func checks(l *lockstep) {
	s := begin(l, "gold=2")
	s.check("prov")
	s.admit("a", 2, 0)
	s.answer("a", "prov", "Ready", object{"podSetUpdates": []any{object{"name": "workers", "nodeSelector": object{"node": "new"}}}})
	s.answer("a", "prov", "Retry", nil)
	s.release("a", "Pending", "False", "AdmissionCheck")
	s.answer("a", "prov", "Ready", nil)
	s.answer("a", "prov", "Rejected", nil)
	s.release("a", "Pending", "False", "Deactivated")
	s.spec("a", object{"active": true})
}

func checksAndStoppedQueues(l *lockstep) {
	s := begin(l, "gold=2")
	s.check("prov")
	s.admit("a", 2, 0)
	s.stop("ClusterQueue", "Hold")
	s.stop("ClusterQueue", "None")
	s.stop("LocalQueue", "Hold")
	s.stop("LocalQueue", "None")
	s.remove("LocalQueue", "queue")
}

func priorityClasses(l *lockstep) {
	s := begin(l, "gold=2")
	class := s.named("class")
	s.make(object{"kind": "WorkloadPriorityClass", "metadata": object{"name": class}, "value": int64(10)})
	s.rest()
	named := func(o object) {
		o["spec"].(object)["priorityClassRef"] = object{"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": class}
	}
	s.admit("a", 2, 15)
	s.admit("b", 2, 7, named)
	s.must(s.patch("WorkloadPriorityClass", class, object{"value": int64(20)}, ""))
	s.rest()
	s.release("a", "Pending", "True", "Preempted")
	// Without a class nobody looks again.
	s.spec("a", object{"priority": int64(30)})
}

func end(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.admit("b", 2, 0)
	s.condition("a", "Finished", "True", "Succeeded")
	s.spec("b", object{"active": false})
	s.remove("Workload", "b")
	s.remove("Workload", "a")
}

func missingQueue(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0, func(o object) { o["spec"].(object)["queueName"] = "later" })
	s.make(object{"kind": "LocalQueue", "metadata": object{"namespace": s.namespace(), "name": "later"}, "spec": object{"clusterQueue": s.cluster()}})
	s.rest()
	s.remove("LocalQueue", "later")
	s.release("a", "OnHold")
	s.spec("a", object{"queueName": "queue"})
}

func deletedClusterQueue(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.remove("ClusterQueue", s.cluster())
	s.release("a", "OnHold")
}

func orphan(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0, func(o object) { o["metadata"].(object)["labels"] = object{"kueue.x-k8s.io/job-uid": "x"} })
}

func gated(l *lockstep) {
	s := begin(l, "gold=2")
	const gate = "kueue.x-k8s.io/admission-gated-by"
	s.admit("a", 2, 0, func(o object) {
		o["metadata"].(object)["annotations"] = object{gate: "example.com/gate"}
	})
	s.must(s.patch("Workload", "a", object{"metadata": object{"annotations": object{gate: nil}}}, ""))
	s.rest()
}

func fewerPods(l *lockstep) {
	s := begin(l, "gold=4")
	s.admit("a", 4, 0)
	s.admit("b", 2, 0)
	s.spec("a", object{"podSets": []any{podSet("workers", 2)}})
}

func editsWhilePending(l *lockstep) {
	s := begin(l, "gold=4")
	s.admit("a", 6, 0)
	s.spec("a", object{"podSets": []any{podSet("workers", 5)}})
	s.admit("b", 5, 0)
	s.spec("a", object{"podSets": []any{podSet("workers", 2), podSet("more", 1)}})
	s.spec("b", object{"priority": int64(10)})
}

func executionTime(l *lockstep) {
	s := begin(l, "gold=4")
	s.admit("a", 2, 0, func(o object) { o["spec"].(object)["maximumExecutionTimeSeconds"] = int64(6) })
	s.due()
}

func neverReady(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	for range 2 {
		s.due()
		s.release("a", "Pending", "False", "PodsReadyTimeout")
		s.due()
	}
	s.due()
	s.release("a", "Pending", "False", "Deactivated")
	s.spec("a", object{"active": true})
	s.condition("a", "PodsReady", "True", "Started")
}

func recovery(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.condition("a", "PodsReady", "True", "Started")
	s.condition("a", "PodsReady", "False", "WaitForRecovery")
	s.due()
	s.release("a", "Pending", "False", "PodsReadyTimeout")
	s.due()
}

func noReasonToWait(l *lockstep) {
	s := begin(l, "gold=2")
	s.admit("a", 2, 0)
	s.condition("a", "PodsReady", "False", "Unknown")
	s.admit("b", 2, 0)
}

// refusals are compared by what is refused, not by what is said.
func refusals(l *lockstep) {
	s := begin(l, "gold=4")
	class := s.named("class")
	s.make(object{"kind": "WorkloadPriorityClass", "metadata": object{"name": class}, "value": int64(10)})
	s.admit("a", 4, 10, func(o object) {
		o["spec"].(object)["priorityClassRef"] = object{"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": class}
	})
	for _, c := range []struct {
		what        string
		refused     bool
		subresource string
		patch       object
	}{
		{"more pods", true, "", object{"spec": object{"podSets": []any{podSet("workers", 5)}}}},
		{"another name", true, "", object{"spec": object{"podSets": []any{podSet("others", 4)}}}},
		{"another podSet", true, "", object{"spec": object{"podSets": []any{podSet("workers", 4), podSet("more", 1)}}}},
		{"another queue", true, "", object{"spec": object{"queueName": "other"}}},
		{"no class", true, "", object{"spec": object{"priorityClassRef": nil}}},
		{"another kind of class", true, "", object{"spec": object{"priorityClassRef": object{"group": "scheduling.k8s.io", "kind": "PriorityClass"}}}},
		{"another class", false, "", object{"spec": object{"priorityClassRef": object{"name": "other"}}}},
		{"another priority", false, "", object{"spec": object{"priority": int64(11)}}},
		{"no priority", true, "", object{"spec": object{"priority": nil}}},
		{"another admission", true, "status", object{"status": object{"admission": object{"clusterQueue": "other"}}}},
		{"no admission", true, "status", object{"status": object{"admission": nil}}},
		{"a condition without a reason", true, "status", object{"status": object{"conditions": []any{object{"type": "X", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-11-29T12:00:00Z"}}}}},
		{"a gate", true, "", object{"metadata": object{"annotations": object{"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}}}},
	} {
		err := s.patch("Workload", "a", c.patch, c.subresource)
		if (err != nil) != c.refused {
			s.Errorf("%s: %v, want refused %v", c.what, err, c.refused)
		}
		s.rest()
	}
}
