package stated_test

import (
	"fmt"
	"testing"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

// A claim is of one reservation: of one Workload, one second, and what was admitted.
func TestAClaimStandsForOneReservation(t *testing.T) {
	const second, admitted = "2026-01-05T08:00:00Z", "leader 1 cpu=small; workers 2 cpu=small example.com/gpu=fast"
	for _, c := range []struct {
		uid, second, assigned string
		reserved              string
		stands                bool
	}{
		{"w", second, admitted, "True", true},
		{"w", second, "", "True", true},
		{"w", second, "leader 1 cpu=small; workers 2 cpu=small example.com/gpu=slow", "True", false},
		{"w", "2026-01-05T08:00:01Z", admitted, "True", false},
		{"v", second, admitted, "True", false},
		{"w", second, admitted, "False", false},
	} {
		workload := &apiserver.Object{Kind: "Workload", UID: "w", Body: map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{v1beta1.AnnotationClaim: fmt.Sprintf(
				`{"workloadUID":%q,"reservedAt":%q,"assigned":%q,"attempt":3}`, c.uid, c.second, c.assigned)}},
			"status": map[string]any{
				"conditions": []any{map[string]any{"type": "QuotaReserved", "status": c.reserved, "lastTransitionTime": second}},
				"admission": map[string]any{"podSetAssignments": []any{
					map[string]any{"name": "leader", "count": int64(1), "flavors": map[string]any{"cpu": "small"}},
					map[string]any{"name": "workers", "count": int64(2), "flavors": map[string]any{"example.com/gpu": "fast", "cpu": "small"}},
				}},
			},
		}}
		claim, ok := stated.ClaimOf(workload)
		if !ok || claim.Attempt != 3 {
			t.Fatalf("%+v: %+v, %v", c, claim, ok)
		}
		if stands := claim.Stands(workload); stands != c.stands {
			t.Errorf("%+v: stands: %v", c, stands)
		}
	}
	if _, ok := stated.ClaimOf(&apiserver.Object{Kind: "Workload", Body: map[string]any{}}); ok {
		t.Error("a Workload without the annotation has a claim")
	}
}
