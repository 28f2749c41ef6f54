//go:build e2e

package applier_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

// What a sync costs, counted by what it allocates, does not depend on how many
// objects there are that no parent owns: neither where a label tells children, nor
// where every orphan might be adopted.
func TestStatement37CostDoesNotDependOnUnownedObjects(t *testing.T) {
	const unowned = 10_000
	type scene struct {
		name   string
		change []func(*applier.CompositeController)
		*world
		key    string
		before uint64
	}
	scenes := []*scene{
		{name: "generated selector"},
		{name: "spec.selector", change: []func(*applier.CompositeController){withSpecSelector}},
		{name: "spec.selector of a cluster-scoped parent", change: []func(*applier.CompositeController){withSpecSelector, ofFleets}},
	}
	for _, s := range scenes {
		s.world = newWorld(t)
		namespace, child := s.namespace, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: %s, labels: {of: %[1]s}}, data: {x: "1"}}`, s.namespace)
		s.run(always(answer(`{phase: Fine}`, child)), s.change...)
		spec := map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"of": namespace}}}
		if len(s.change) == 2 {
			s.key = s.fleet("p", spec).GetName()
		} else {
			s.parent("p", spec)
			s.key = namespace + "/p"
		}
		s.eventually("the child exists", func() bool { return s.get(configMaps, "a") != nil })
		s.quiet()
		s.before = s.costOfSync(s.key)
	}
	crowd(t, unowned)
	for _, s := range scenes {
		if len(s.change) > 0 {
			s.eventually("the crowd is seen", func() bool { return s.metric("rtj_applier_cache_objects") >= unowned })
		}
	}
	for _, s := range scenes {
		after := s.costOfSync(s.key)
		t.Logf("%s: a sync allocates %d bytes, with %d unowned ConfigMaps around %d", s.name, s.before, unowned, after)
		if after > s.before+s.before/2 {
			t.Errorf("%s: a sync allocates %d bytes, and %d with %d unowned ConfigMaps around", s.name, s.before, after, unowned)
		}
	}
}

// crowd makes ConfigMaps that nobody owns, in a namespace of their own.
func crowd(t testing.TB, n int) {
	t.Helper()
	w := newWorld(t)
	inParallel(n, func(i int) {
		o := object("v1", "ConfigMap", fmt.Sprintf("unowned-%d", i), nil)
		o.SetLabels(map[string]string{"app": "crowd"})
		if _, err := server.client.Resource(configMaps).Namespace(w.namespace).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		if err := server.client.Resource(configMaps).Namespace(w.namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=crowd"}); err != nil {
			t.Error(err)
		}
	})
}

// costOfSync returns the bytes that a sync allocates which changes nothing, hook
// included: the least of many, since others allocate meanwhile.
func (w *world) costOfSync(key string) uint64 {
	w.t.Helper()
	namespace, name := contract.SplitObjectKey(key)
	least := ^uint64(0)
	for range 50 {
		var before, after runtime.MemStats
		n := w.syncs.Load()
		runtime.ReadMemStats(&before)
		w.applier.Enqueue(namespace, name)
		for deadline := time.Now().Add(30 * time.Second); w.syncs.Load() == n; time.Sleep(100 * time.Microsecond) {
			if time.Now().After(deadline) {
				w.t.Fatal("it is not synced")
			}
		}
		time.Sleep(5 * time.Millisecond) // what follows the hook, which writes nothing
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
