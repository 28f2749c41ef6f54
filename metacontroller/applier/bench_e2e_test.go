//go:build e2e

package applier_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
)

// How long 500 parents with one ConfigMap each take from the start of the applier
// to the last status, and how much of this process's CPU (applier, hooks and
// test). The second case has 10,000 ConfigMaps around that nobody owns.
func BenchmarkConvergence(b *testing.B) {
	for _, unowned := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("500parents/%dunowned", unowned), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := newWorld(b)
				inParallel(unowned, func(i int) {
					w.create(configMaps, w.namespace, object("v1", "ConfigMap", fmt.Sprintf("unowned-%d", i), nil))
				})
				inParallel(500, func(i int) { w.parent(fmt.Sprintf("p%d", i), nil) })
				before := cpu()
				b.StartTimer()
				w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
					name := parentName(r)
					return answer(`{phase: Running}`, `{apiVersion: v1, kind: ConfigMap, metadata: {name: `+name+`}, data: {x: "1"}}`), nil
				})
				w.eventually("500 statuses are written", func() bool {
					list, err := server.client.Resource(trains).Namespace(w.namespace).List(context.Background(), metav1.ListOptions{ResourceVersion: "0"})
					if err != nil {
						b.Fatal(err)
					}
					n := 0
					for _, p := range list.Items {
						if field(&p, "status", "phase") == "Running" {
							n++
						}
					}
					time.Sleep(50 * time.Millisecond)
					return n == 500
				})
				b.StopTimer()
				b.ReportMetric((cpu() - before).Seconds(), "cpu-s/op")
				b.ReportMetric(float64(len(w.requests.take())), "requests/op")
				w.stop()
				if err := server.client.Resource(namespaces).Delete(context.Background(), w.namespace, metav1.DeleteOptions{}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func inParallel(n int, f func(int)) {
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				f(i)
			}
		})
	}
	wg.Wait()
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
