package compose

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// reservation names one reservation of quota: a Workload may be admitted many
// times, and each time is another reservation. Times are of whole seconds, within
// which Kueue may evict and admit again, on other flavors.
type reservation struct {
	WorkloadUID types.UID   `json:"workloadUID"`
	ReservedAt  metav1.Time `json:"reservedAt"`
	// Assigned is what was admitted: see [Workload.assigned]. Empty: not noted.
	Assigned string `json:"assigned,omitempty"`
}

func (r reservation) equal(other reservation) bool {
	return r.WorkloadUID == other.WorkloadUID && r.ReservedAt.Equal(&other.ReservedAt) &&
		(r.Assigned == other.Assigned || r.Assigned == "" || other.Assigned == "")
}

// claim says which attempt a reservation is used for, and which JobSet that is: one
// that is made later under the same name is not it, since the first may have run.
type claim struct {
	reservation
	Attempt   int32       `json:"attempt"`
	JobSetUID types.UID   `json:"jobSetUID"`
	At        metav1.Time `json:"at"`
}

// isOf reports whether the claim is for the JobSet of attempt n.
func (c *claim) isOf(n int32, j *JobSet) bool { return c.Attempt == n && c.JobSetUID == j.Meta.UID }

func (w *Workload) condition(kind string) Condition { return condition(w.Status.Conditions, kind) }

// reserved reports whether the Workload holds quota.
func (w *Workload) reserved() bool {
	return w != nil && isTrue(w.Status.Conditions, kueue.WorkloadQuotaReserved) && !w.finished()
}

func (w *Workload) admitted() bool { return isTrue(w.Status.Conditions, kueue.WorkloadAdmitted) }

func (w *Workload) evicted() bool { return isTrue(w.Status.Conditions, kueue.WorkloadEvicted) }

func (w *Workload) finished() bool { return isTrue(w.Status.Conditions, kueue.WorkloadFinished) }

func (w *Workload) active() bool { return w.Spec.Active == nil || *w.Spec.Active }

// reservation returns the current one; it is zero while no quota is reserved.
func (w *Workload) reservation() reservation {
	return *w.reserves.or(func() *reservation {
		if !w.reserved() {
			return &reservation{}
		}
		return &reservation{WorkloadUID: w.Meta.UID, ReservedAt: w.condition(kueue.WorkloadQuotaReserved).LastTransitionTime, Assigned: w.assigned()}
	})
}

// assigned is the number of pods and the flavors of each podSet, such as
// "workers 2 cpu=gpu example.com/gpu=gpu"; podSets are sorted and separated by semicolons.
func (w *Workload) assigned() string {
	if w.Status.Admission == nil {
		return ""
	}
	var text []byte
	sets := slices.SortedFunc(slices.Values(w.Status.Admission.PodSetAssignments), func(a, b PodSetAssignment) int {
		return strings.Compare(a.Name, b.Name)
	})
	for i, a := range sets {
		if i > 0 {
			text = append(text, "; "...)
		}
		text = append(text, a.Name...)
		if a.Count != nil {
			text = strconv.AppendInt(append(text, ' '), int64(*a.Count), 10)
		}
		for _, resource := range slices.Sorted(maps.Keys(a.Flavors)) {
			text = append(append(text, ' '), resource...)
			text = append(append(text, '='), a.Flavors[resource]...)
		}
	}
	return string(text)
}

// claim returns the claim that stands in the Workload, or nil.
func (w *Workload) claim() *claim {
	return w.claimed.or(func() *claim { return readClaim(w.Meta.Annotations[v1beta1.AnnotationClaim]) })
}

// readClaim returns nil also for a claim that cannot be read: the attempt then
// loses its admission, which is safe.
func readClaim(text string) *claim {
	var c claim
	if text == "" || json.Unmarshal([]byte(text), &c) != nil || c.Attempt < 1 || c.Attempt > maxAttempt {
		return nil
	}
	return &c
}

// builtFor returns the reservation that a JobSet was built for.
func (j *JobSet) builtFor() reservation {
	return *j.reserved.or(func() *reservation {
		var r reservation
		// An annotation that cannot be read is of no reservation.
		_ = json.Unmarshal([]byte(j.Meta.Annotations[v1beta1.AnnotationReservation]), &r)
		return &r
	})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		// Only values of this package's own plain types come here.
		return ""
	}
	return string(text)
}
