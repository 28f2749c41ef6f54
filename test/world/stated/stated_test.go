package stated_test

import (
	"fmt"
	"testing"
	"time"

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
		{"its own", second, admitted, "True", true},
		{"its own", second, "", "True", true},
		{"its own", second, "leader 1 cpu=small; workers 2 cpu=small example.com/gpu=slow", "True", false},
		{"its own", "2026-01-05T08:00:01Z", admitted, "True", false},
		{"another", second, admitted, "True", false},
		{"its own", second, admitted, "False", false},
	} {
		api := apiserver.New(time.Now)
		workload, err := api.Create("kueue", map[string]any{"kind": "Workload", "metadata": map[string]any{"namespace": "team", "name": "w"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := stated.ClaimOf(workload); ok {
			t.Error("a Workload without the annotation has a claim")
		}
		uid := c.uid
		if uid == "its own" {
			uid = workload.UID
		}
		if workload, err = api.Update("rtj", workload, "", func(body map[string]any) {
			body["metadata"].(map[string]any)["annotations"] = map[string]any{v1beta1.AnnotationClaim: fmt.Sprintf(
				`{"workloadUID":%q,"reservedAt":%q,"assigned":%q,"attempt":3}`, uid, c.second, c.assigned)}
		}); err != nil {
			t.Fatal(err)
		}
		if workload, err = api.Update("kueue", workload, apiserver.Status, func(body map[string]any) {
			body["status"] = map[string]any{
				"conditions": []any{map[string]any{"type": "QuotaReserved", "status": c.reserved, "lastTransitionTime": second}},
				"admission": map[string]any{"podSetAssignments": []any{
					map[string]any{"name": "leader", "count": int64(1), "flavors": map[string]any{"cpu": "small"}},
					map[string]any{"name": "workers", "count": int64(2), "flavors": map[string]any{"example.com/gpu": "fast", "cpu": "small"}},
				}},
			}
		}); err != nil {
			t.Fatal(err)
		}
		claim, ok := stated.ClaimOf(workload)
		if !ok || claim.Attempt != 3 {
			t.Fatalf("%+v: %+v, %v", c, claim, ok)
		}
		if stands := claim.Stands(workload); stands != c.stands {
			t.Errorf("%+v: stands: %v", c, stands)
		}
	}
}
