package lifecycle

import (
	"fmt"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// verbKueue shows what Kueue does with the newest Workload:
//
//	kueue wait ["message=..."]               no quota yet
//	kueue refuse ["message=..."]             it cannot be admitted as it is
//	kueue reserve [count=N]                  quota, and admission checks pending
//	kueue admit [count=N]                    quota and admission
//	kueue evict reason=Preempted ["message=..."]
//	kueue deactivate [cause=RequeuingLimitExceeded]
//	kueue activate
func (w *world) verbKueue(c *command) error {
	workload, err := w.newest("Workload")
	if err != nil {
		return err
	}
	switch what := c.word(""); what {
	case "wait":
		w.setCondition(workload, kueue.WorkloadQuotaReserved, "False", "Pending", c.text("message", "couldn't assign flavors: insufficient unused quota"))
	case "refuse":
		w.setCondition(workload, kueue.WorkloadQuotaReserved, "False", kueue.WorkloadInadmissible, c.text("message", "LocalQueue team-a doesn't exist"))
	case "reserve", "admit":
		if err := w.reserve(workload, c); err != nil {
			return err
		}
		if what == "admit" {
			w.setCondition(workload, kueue.WorkloadAdmitted, "True", kueue.WorkloadAdmitted, "The workload is admitted")
		}
	case "evict":
		reason := c.text("reason", kueue.WorkloadEvictedByPreemption)
		w.evict(workload, reason, c.text("message", "evicted by the script"))
	case "deactivate":
		reason := kueue.WorkloadDeactivated
		if cause := c.text("cause", ""); cause != "" {
			reason += "DueTo" + cause
		}
		below(workload, "spec")["active"] = false
		w.evict(workload, reason, c.text("message", "The workload is deactivated"))
	case "activate":
		below(workload, "spec")["active"] = true
	default:
		return fmt.Errorf("unknown %q", what)
	}
	w.touch(workload)
	return nil
}

func (w *world) evict(workload object, reason, message string) {
	w.setCondition(workload, kueue.WorkloadEvicted, "True", reason, message)
	if reason == kueue.WorkloadEvictedByPreemption {
		w.setCondition(workload, kueue.WorkloadPreempted, "True", "InClusterQueue", message)
	}
}

// reserve gives the Workload what it asks for, or another count of pods.
func (w *world) reserve(workload object, c *command) error {
	if conditionOf(workload, kueue.WorkloadQuotaReserved)["status"] != "True" {
		var assignments []any
		sets, _ := below(workload, "spec")["podSets"].([]any)
		for _, item := range sets {
			set := item.(object)
			want, _ := set["count"].(int64)
			count, err := c.number("count", want)
			if err != nil {
				return err
			}
			assignments = append(assignments, object{"name": set["name"], "count": count, "flavors": object{"cpu": "gpu", "example.com/gpu": "gpu"}})
		}
		below(workload, "status")["admission"] = object{"clusterQueue": "cluster", "podSetAssignments": assignments}
		w.setCondition(workload, kueue.WorkloadQuotaReserved, "True", "QuotaReserved", "Quota reserved in ClusterQueue cluster")
		for _, kind := range []string{kueue.WorkloadEvicted, kueue.WorkloadPreempted} {
			if conditionOf(workload, kind)["status"] == "True" {
				w.setCondition(workload, kind, "False", "QuotaReserved", "Previously: evicted")
			}
		}
	}
	return nil
}
