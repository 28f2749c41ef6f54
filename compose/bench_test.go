package compose_test

import (
	"fmt"
	"testing"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/test/benchmark"
)

// A decision about a job that runs, from decoded objects: in steady state; after
// an edit of the spec, since when template and shape are compared by their hashes;
// and when a person goes back to an earlier checkpoint.
func BenchmarkSync(b *testing.B) {
	m, err := benchmark.Running()
	if err != nil {
		b.Fatal(err)
	}
	o, err := hooks.Observe(m.Request)
	if err != nil {
		b.Fatal(err)
	}
	o.Now, o.Catalog, o.Observer = m.Now, m.Catalog, "rtj"
	if len(o.Jobs) != benchmark.Jobs || len(o.JobSets) != 1 || len(o.Catalog.Manifests) != benchmark.Checkpoints {
		b.Fatalf("%d Jobs, %d JobSets, %d checkpoints", len(o.Jobs), len(o.JobSets), len(o.Catalog.Manifests))
	}
	edited, rolledBack := *o, *o
	edited.Parent = o.Parent.DeepCopy()
	edited.Parent.Generation++
	rolledBack.Parent = edited.Parent.DeepCopy()
	rolledBack.Parent.Spec.Resume.From = o.Catalog.Manifests[0].ID

	size := fmt.Sprintf("JobSets=1/Jobs=%d/checkpoints=%d", benchmark.Jobs, benchmark.Checkpoints)
	for _, state := range []struct {
		name  string
		o     *compose.Observation
		phase v1beta1.Phase
	}{{size, o, v1beta1.PhaseRunning}, {size + "/edited", &edited, v1beta1.PhaseRunning}, {size + "/rolled-back", &rolledBack, v1beta1.PhaseDraining}} {
		b.Run(state.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d := compose.Sync(state.o); d.Status.Phase != state.phase {
					b.Fatalf("phase %s", d.Status.Phase)
				}
			}
		})
	}
}
