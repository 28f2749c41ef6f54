package stated_test

import (
	"fmt"
	"testing"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

// What was admitted is the same in whatever order its podSets stand.
func TestAClaimStandsInAnyOrderOfPodSets(t *testing.T) {
	set := func(name, flavor string) any {
		return map[string]any{"name": name, "count": int64(2), "flavors": map[string]any{"cpu": flavor}}
	}
	for _, c := range []struct {
		sets   []any
		stands bool
	}{
		{[]any{set("loaders", "gpu"), set("workers", "gpu")}, true},
		{[]any{set("workers", "gpu"), set("loaders", "gpu")}, true},
		{[]any{set("workers", "gpu"), set("loaders", "other")}, false},
	} {
		workload := apiserver.Of(map[string]any{
			"kind": "Workload",
			"metadata": map[string]any{"uid": "uid-w", "annotations": map[string]any{"training.rtj.dev/claim": fmt.Sprintf(
				`{"workloadUID":"uid-w","reservedAt":"2026-11-29T10:00:00Z","assigned":%q,"attempt":1}`, "loaders 2 cpu=gpu; workers 2 cpu=gpu")}},
			"status": map[string]any{
				"conditions": []any{map[string]any{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-29T10:00:00Z"}},
				"admission":  map[string]any{"podSetAssignments": c.sets},
			},
		})
		claim, ok := stated.ClaimOf(workload)
		if !ok || claim.Stands(workload) != c.stands {
			t.Errorf("with podSets %v the claim stands: %v, want %v", c.sets, claim.Stands(workload), c.stands)
		}
	}
}
