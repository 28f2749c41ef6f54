package kueue

import (
	"encoding/json"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// Conditions of a Workload.
const (
	quotaReserved      = "QuotaReserved"
	admitted           = "Admitted"
	evicted            = "Evicted"
	preempted          = "Preempted"
	requeued           = "Requeued"
	podsReady          = "PodsReady"
	finishedCondition  = "Finished"
	deactivationTarget = "DeactivationTarget"
)

// managed are those that every write of Kueue's repeats as it last saw them.
var managed = []string{quotaReserved, evicted, admitted, preempted, requeued, deactivationTarget, finishedCondition, podsReady}

// Reasons. Those of evictions also stand in Requeued.
const (
	reasonPending      = "Pending"
	reasonInadmissible = "Inadmissible"
	reasonOnHold       = "OnHold"
	reasonGated        = "AdmissionGated"

	// Preempted and the others are the reasons for which Kueue evicts.
	Preempted           = "Preempted"
	PodsReadyTimeout    = "PodsReadyTimeout"
	AdmissionCheck      = "AdmissionCheck"
	LocalQueueStopped   = "LocalQueueStopped"
	ClusterQueueStopped = "ClusterQueueStopped"
	NodeFailures        = "NodeFailures"
	Deactivated         = "Deactivated"
)

const (
	statusPending   = "pending"
	statusReserved  = "quotaReserved"
	statusAdmitted  = "admitted"
	statusFinished  = "finished"
	gateAnnotation  = "kueue.x-k8s.io/admission-gated-by"
	workloadGroup   = "kueue.x-k8s.io"
	workloadClasses = "WorkloadPriorityClass"
)

func statusOf(o *apiserver.Object) string {
	switch {
	case finished(o):
		return statusFinished
	case o.True(admitted):
		return statusAdmitted
	case o.True(quotaReserved):
		return statusReserved
	}
	return statusPending
}

func finished(o *apiserver.Object) bool { return o.True(finishedCondition) }

// active defaults to true.
func active(o *apiserver.Object) bool { return o.At("spec", "active") != false }

func onHold(o *apiserver.Object) bool {
	c := o.Condition(quotaReserved)
	return c["status"] == "False" && c["reason"] == reasonOnHold
}

// admissible: it may be queued.
func admissible(o *apiserver.Object) bool {
	return o.Annotation(gateAnnotation) == "" && !finished(o) && active(o) && !o.True(quotaReserved) && !onHold(o)
}

func priorityOf(o *apiserver.Object) int64 { return o.Int("spec", "priority") }

// className is the WorkloadPriorityClass; empty for any other kind of class, and none.
func className(o *apiserver.Object) string {
	if o.Text("spec", "priorityClassRef", "kind") != workloadClasses || o.Text("spec", "priorityClassRef", "group") != workloadGroup {
		return ""
	}
	return o.Text("spec", "priorityClassRef", "name")
}

// priorityChanged: Kueue tries what is pending again only for a class of its own.
func priorityChanged(old, now *apiserver.Object) bool {
	if className(now) == "" {
		return false
	}
	return className(old) != className(now) || priorityOf(old) != priorityOf(now)
}

// queuedSince orders Workloads of equal priority: the creation, or the eviction where it
// was for pods that were not ready or by an admission check.
func queuedSince(o *apiserver.Object) time.Time {
	if c := o.Condition(evicted); c["status"] == "True" && (c["reason"] == PodsReadyTimeout || c["reason"] == AdmissionCheck) {
		return transition(c)
	}
	return instant(o.Text("metadata", "creationTimestamp"))
}

// ahead reports whether a comes before b in a queue.
func ahead(a, b *apiserver.Object, sticky string) bool {
	if a.UID == sticky || b.UID == sticky {
		return a.UID == sticky
	}
	if p, q := priorityOf(a), priorityOf(b); p != q {
		return p > q
	}
	if t, u := queuedSince(a), queuedSince(b); !t.Equal(u) {
		return t.Before(u)
	}
	return strings.Compare(a.UID, b.UID) < 0
}

type shapeKey struct{}

// shapeOf is equal for Workloads that get the same answer of the scheduler.
func shapeOf(o *apiserver.Object) string {
	return o.Cached(shapeKey{}, func() any {
		shape := []any{priorityOf(o)}
		for _, item := range o.List("spec", "podSets") {
			set, _ := item.(map[string]any)
			template, _ := set["template"].(map[string]any)
			spec, _ := template["spec"].(map[string]any)
			pod := map[string]any{}
			for _, key := range []string{"nodeSelector", "affinity", "tolerations", "overhead"} {
				pod[key] = spec[key]
			}
			for _, key := range []string{"initContainers", "containers"} {
				list, _ := spec[key].([]any)
				var containers []any
				for _, c := range list {
					container, _ := c.(map[string]any)
					containers = append(containers, []any{container["resources"], container["ports"]})
				}
				pod[key] = containers
			}
			shape = append(shape, []any{set["name"], set["count"], set["minCount"], pod})
		}
		text, err := json.Marshal(shape)
		if err != nil {
			panic(err) // JSON values
		}
		return string(text)
	}).(string)
}

// scaledDown: a podSet asks for less than before.
func scaledDown(old, now *apiserver.Object) bool {
	if old.Generation == now.Generation {
		return false
	}
	a, b := demandOf(old), demandOf(now)
	for i := range min(len(a), len(b)) {
		if b[i].count < a[i].count {
			return true
		}
	}
	return false
}

func transition(condition map[string]any) time.Time {
	text, _ := condition["lastTransitionTime"].(string)
	return instant(text)
}

// instant reads a time; zero where there is none.
func instant(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
