package compose_test

import (
	"fmt"
	"testing"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/test/benchmark"
)

// A decision about a job that runs, from decoded objects.
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
	b.Run(fmt.Sprintf("JobSets=1/Jobs=%d/checkpoints=%d", benchmark.Jobs, benchmark.Checkpoints), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d := compose.Sync(o); d.Status.Phase != "Running" {
				b.Fatalf("phase %s", d.Status.Phase)
			}
		}
	})
}
