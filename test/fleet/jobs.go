package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

var (
	rtjs    = v1beta1.GroupVersion.WithResource(v1beta1.Resource)
	jobSets = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
)

// stepLimit bounds each step of the measurement.
const stepLimit = 8 * time.Minute

// creators is how many jobs are created at once: more than the API server takes.
const creators = 16

// fleet is a namespace with a queue without quota, and its jobs.
type fleet struct {
	*harness.Namespace
	options options
}

func newFleet(ctx context.Context, c *harness.Cluster, o options) (*fleet, error) {
	n, err := c.NewNamespace(ctx, "fleet", harness.QueueOptions{Fake: true})
	if err != nil {
		return nil, err
	}
	return &fleet{n, o}, nil
}

// queue creates the jobs and returns how long it took until all are queued.
func (f *fleet) queue(ctx context.Context) (time.Duration, error) {
	fmt.Printf("creating %d jobs\n", f.options.jobs)
	begun := time.Now()
	var next atomic.Int64
	failed := make(chan error, creators)
	var creating sync.WaitGroup
	for range creators {
		creating.Go(func() {
			for i := next.Add(1); int(i) <= f.options.jobs; i = next.Add(1) {
				if err := f.Create(ctx, harness.Job{Name: fmt.Sprintf("job-%d", i), Pods: 1}); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	creating.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return 0, err
	}
	fmt.Printf("created after %.1f s\n", time.Since(begun).Seconds())
	return f.until(ctx, begun, "jobs are queued", f.options.jobs, rtjs, inPhase(v1beta1.PhaseQueued))
}

// admit gives quota and returns how long it took until the last JobSet started.
func (f *fleet) admit(ctx context.Context) (time.Duration, error) {
	fmt.Printf("quota for %d jobs\n", f.options.admit)
	begun := time.Now()
	if err := f.SetQuota(ctx, f.options.admit); err != nil {
		return 0, err
	}
	return f.until(ctx, begun, "JobSets are started", f.options.admit, jobSets, func(u *unstructured.Unstructured) bool {
		suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
		return !suspended
	})
}

func (f *fleet) untilRunning(ctx context.Context) error {
	_, err := f.until(ctx, time.Now(), "jobs run", f.options.admit, rtjs, inPhase(v1beta1.PhaseRunning))
	return err
}

func inPhase(phase v1beta1.Phase) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		is, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		return is == string(phase)
	}
}

// until watches the objects of the namespace until as many as wanted are so, and
// returns the time since begun.
func (f *fleet) until(ctx context.Context, begun time.Time, what string, want int, resource schema.GroupVersionResource, so func(*unstructured.Unstructured) bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, fmt.Errorf("waited %s in vain for %d of %s", stepLimit, want, what))
	defer cancel()
	watching, enough := context.WithCancel(ctx)
	defer enough()
	are, reported := map[string]bool{}, time.Now()
	f.Watch(watching, resource, func(u *unstructured.Unstructured) {
		if so(u) {
			are[u.GetName()] = true
		} else {
			delete(are, u.GetName())
		}
		if len(are) >= want {
			enough()
		} else if time.Since(reported) > 5*time.Second {
			fmt.Printf("  %d of %d %s after %.0f s\n", len(are), want, what, time.Since(begun).Seconds())
			reported = time.Now()
		}
	})
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return time.Since(begun), nil
}
