package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
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

// The sync hook over HTTP on one core. The client shares the core; it does no more
// than to write a request that was made before and to read the answer.
func BenchmarkHTTPSync(b *testing.B) {
	m, err := benchmark.Running()
	if err != nil {
		b.Fatal(err)
	}
	h := hooks.New(hooks.Options{Store: given{m.Catalog}, Observer: "rtj", PodIntegration: true, Now: func() time.Time { return m.Now }})
	defer h.Close()
	handler, err := NewHandler(Options{Hooks: h, Runners: everyone{}})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer KeepHeapFloor()() // as the commands do

	for _, managedFields := range []bool{true, false} {
		body, err := benchmark.Body(m.Request, managedFields)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("managedFields=%v/request=%dKB/Jobs=%d/checkpoints=%d", managedFields, len(body)>>10, benchmark.Jobs, benchmark.Checkpoints), func(b *testing.B) {
			client := dial(b, server.Listener.Addr().String())
			request := fmt.Appendf(nil, "POST /sync HTTP/1.1\r\nHost: rtj\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				if n := client.post(b, request); n < 1<<10 {
					b.Fatalf("an answer of %d bytes", n)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			// What one core does where the benchmark has it for itself.
			b.ReportMetric(float64(b.N)/(processorTime(b)-before).Seconds(), "requests/cpu-s")
		})
	}
}

// client is one connection.
type client struct {
	net.Conn
	answers *bufio.Reader
}

func dial(b *testing.B, address string) *client {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return &client{conn, bufio.NewReaderSize(conn, 64<<10)}
}

// post sends a request and returns how many bytes the answer has.
func (c *client) post(b *testing.B, request []byte) int64 {
	if _, err := c.Write(request); err != nil {
		b.Fatal(err)
	}
	response, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		b.Fatal(err)
	}
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("%s, %v", response.Status, err)
	}
	return n
}

// processorTime is what this process has used of all cores.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
