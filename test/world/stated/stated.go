// Package stated reads what rtj states in objects: of which attempt one is, which
// reservation of quota an attempt claimed, that a job ended. It has it from the formats
// (docs/formats.md), not from the core.
package stated

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/apiserver"
)

// Ended tells whether a job did, for good.
func Ended(job *apiserver.Object) bool {
	return v1beta1.Phase(job.Text("status", "phase")).Terminal()
}

// Attempt is that of the label; 0: there is none.
func Attempt(o *apiserver.Object) int64 {
	n, _ := strconv.ParseInt(o.Label(v1beta1.LabelAttempt), 10, 64)
	return n
}

// Claim is that of an attempt, in a Workload's annotation.
type Claim struct {
	WorkloadUID, ReservedAt, Assigned string
	Attempt                           int64
}

type claimKey struct{}

// ClaimOf reads the claim in a Workload; ok tells whether there is one.
func ClaimOf(workload *apiserver.Object) (c Claim, ok bool) {
	known := workload.Cached(claimKey{}, func() any {
		var c Claim
		if json.Unmarshal([]byte(workload.Annotation(v1beta1.AnnotationClaim)), &c) != nil {
			return (*Claim)(nil)
		}
		return &c
	}).(*Claim)
	if known == nil {
		return c, false
	}
	return *known, true
}

// Stands tells whether the claim is of the reservation that the Workload has. One that
// does not say what was admitted is told by its second alone.
func (c Claim) Stands(workload *apiserver.Object) bool {
	reserved, _ := workload.Condition("QuotaReserved")["lastTransitionTime"].(string)
	return workload.True("QuotaReserved") && c.WorkloadUID == workload.UID && c.ReservedAt == reserved &&
		(c.Assigned == "" || c.Assigned == assigned(workload))
}

type assignedKey struct{}

// assigned is what was admitted: of each podSet its name, the number of pods, and the
// flavor of each resource, in order.
func assigned(workload *apiserver.Object) string {
	return workload.Cached(assignedKey{}, func() any { return assignment(workload) }).(string)
}

func assignment(workload *apiserver.Object) string {
	var sets []string
	for _, item := range workload.List("status", "admission", "podSetAssignments") {
		a, _ := item.(map[string]any)
		name, _ := a["name"].(string)
		words := []string{name}
		if count, ok := a["count"].(int64); ok {
			words = append(words, strconv.FormatInt(count, 10))
		}
		flavors, _ := a["flavors"].(map[string]any)
		for _, resource := range slices.Sorted(maps.Keys(flavors)) {
			words = append(words, fmt.Sprintf("%s=%v", resource, flavors[resource]))
		}
		sets = append(sets, strings.Join(words, " "))
	}
	slices.Sort(sets)
	return strings.Join(sets, "; ")
}
