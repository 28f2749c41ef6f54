package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"syscall"
	"testing"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/benchmark"
)

// given is a store that was read.
type given struct{ snapshot *checkpoint.Snapshot }

func (s given) Read(context.Context, catalog.Run, catalog.Ask) *checkpoint.Snapshot {
	return s.snapshot
}

// The sync hook over HTTP on one core, client included: both ends share it.
func BenchmarkHTTPSync(b *testing.B) {
	m, err := benchmark.Running()
	if err != nil {
		b.Fatal(err)
	}
	h := hooks.New(hooks.Options{Store: given{m.Catalog}, Observer: "rtj", PodIntegration: true, Now: func() time.Time { return m.Now }})
	defer h.Close()
	handler, err := NewHandler(Options{Hooks: h})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))

	for _, managedFields := range []bool{true, false} {
		body, err := benchmark.Body(m.Request, managedFields)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("managedFields=%v/request=%dKB/Jobs=%d/checkpoints=%d", managedFields, len(body)>>10, benchmark.Jobs, benchmark.Checkpoints), func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				response, err := server.Client().Post(server.URL+"/sync", "application/json", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK || n < 1<<10 {
					b.Fatalf("%s, %d bytes, %v", response.Status, n, err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			// What one core does where the benchmark has it for itself.
			b.ReportMetric(float64(b.N)/(processorTime(b)-before).Seconds(), "requests/cpu-s")
		})
	}
}

// processorTime is what this process has used of all cores.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
