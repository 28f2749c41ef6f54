package jobs_test

import (
	"testing"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// BenchmarkLife is a JobSet of two Jobs from its creation to its end, one event after
// the other; what counts is the time for an event, enumeration of all included.
func BenchmarkLife(b *testing.B) {
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		r := newRig(b)
		r.create(jobSet("llama-1", true, 2, 1))
		for {
			var all []event.Event
			r.Events(func(e event.Event) {
				if !e.Fault {
					all = append(all, e)
				}
			})
			if len(all) > 0 {
				all[len(all)-1].Do()
				events++
				r.Next()
				continue
			}
			if r.jobSet().Bool("spec", "suspend") {
				r.patch("JobSet", "team", "llama-1", object{"spec": object{"suspend": false}}, "")
			} else if !r.jobSet().True("Completed") {
				r.exit(0, 0)
				r.exit(1, 0)
			} else {
				break
			}
		}
		r.check(r.api.Delete("test", "JobSet", "team", "llama-1", apiserver.Deletion{}))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}
