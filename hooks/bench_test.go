package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/benchmark"
)

// given is a store that was read.
type given struct{ snapshot *checkpoint.Snapshot }

func (s given) Read(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot {
	return s.snapshot
}

// The parts of an answer: to know the objects, and to render the children.
func BenchmarkAnswer(b *testing.B) {
	m, err := benchmark.Running()
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(m.Request)
	if err != nil {
		b.Fatal(err)
	}
	size := fmt.Sprintf("/request=%dKB/Jobs=%d", len(body)>>10, benchmark.Jobs)
	b.Run("Decode"+size, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := contract.DecodeSyncRequest(body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Observe"+size, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := hooks.Observe(m.Request); err != nil {
				b.Fatal(err)
			}
		}
	})
	o, err := hooks.Observe(m.Request)
	if err != nil {
		b.Fatal(err)
	}
	o.Now, o.Catalog, o.Observer = m.Now, m.Catalog, "rtj"
	d := compose.Sync(o)
	b.Run("Respond"+size, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := hooks.Respond(d, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	h := hooks.New(hooks.Options{Store: given{m.Catalog}, Observer: "rtj", PodIntegration: true, Now: func() time.Time { return m.Now }})
	defer h.Close()
	b.Run("Answer"+size, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := h.Answer(context.Background(), m.Request, false); err != nil {
				b.Fatal(err)
			}
		}
	})
}
