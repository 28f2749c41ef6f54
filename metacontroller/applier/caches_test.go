package applier

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
)

func TestWatchesThatNobodyNeedsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	list := map[schema.GroupVersionResource]string{jobs: "JobList"}
	c := newCaches(ctx, fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), list), nil)
	defer func() {
		cancel()
		c.wait()
	}()
	none := func(*objects) cache.ResourceEventHandler { return cache.ResourceEventHandlerFuncs{} }
	kept, dropped := scope{resource: jobs}, scope{resource: jobs, labels: "uid"}
	first := c.start(kept, none, nil)
	idle := c.start(dropped, none, nil)
	inUse := func(scopes ...scope) func(scope) bool {
		return func(s scope) bool { return slices.Contains(scopes, s) }
	}
	c.sweep(inUse(kept))
	c.sweep(inUse(kept, dropped)) // needed again
	c.sweep(inUse(kept))
	if c.start(dropped, none, nil) != idle {
		t.Fatal("a watch that was needed of late has ended")
	}
	c.sweep(inUse(kept))
	if len(c.byScope) != 1 || c.byScope[kept] != first {
		t.Errorf("watches are %v", c.byScope)
	}
	for !idle.informer.IsStopped() {
		select {
		case <-t.Context().Done():
			t.Fatal("the watch goes on")
		default:
		}
	}
	if again := c.start(dropped, none, nil); again == idle || first.informer.IsStopped() {
		t.Error("a watch that has ended is used, or one that is needed has ended")
	}
}
