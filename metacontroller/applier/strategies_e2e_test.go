//go:build e2e

package applier_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"rtj.dev/rtj/metacontroller/applier"
)

func TestStatement12UpdateStrategies(t *testing.T) {
	for _, c := range []struct {
		method  applier.UpdateMethod
		color   string
		sameUID bool
	}{{"", "red", true}, {applier.OnDelete, "red", true}, {applier.InPlace, "blue", true}, {applier.Recreate, "blue", false}} {
		for name, changes := range map[string][]func(*applier.CompositeController){"partial": {method(c.method)}, "complete": {method(c.method), complete}} {
			t.Run(fmt.Sprintf("%q/%s", c.method, name), func(t *testing.T) {
				w := newWorld(t).run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, size: 3}}`)), changes...)
				w.parent("p", nil)
				w.quiet()
				uid := w.get(parts, "a").GetUID()
				w.onSync(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: blue, size: 3}}`)))
				w.applier.Enqueue(w.namespace, "p")
				w.quiet()
				w.quiet()
				a := w.get(parts, "a")
				if field(a, "spec", "color") != c.color || (a.GetUID() == uid) != c.sameUID {
					t.Errorf("color %q, same uid %v", field(a, "spec", "color"), a.GetUID() == uid)
				}
			})
		}
	}
}

func TestStatement31RecreateOnImmutableAndNotOnNotation(t *testing.T) {
	pods := "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x, resources: {limits: {cpu: %q}}}]}}"
	asPods := func(c *applier.CompositeController) {
		c.Spec.ChildResources = []applier.ChildResource{{Resource: applier.Resource{APIVersion: "v1", Resource: "pods"}, UpdateStrategy: &applier.UpdateStrategy{Method: applier.Recreate}}}
	}
	w := newWorld(t).run(always(answer("", fmt.Sprintf(pods, "1000m"))), asPods)
	podResource := configMaps
	podResource.Resource = "pods"
	w.parent("p", nil)
	w.eventually("the pod exists", func() bool { return w.get(podResource, "a") != nil })
	w.quiet()
	uid := w.get(podResource, "a").GetUID()
	w.stop()
	w.run(always(answer("", fmt.Sprintf(pods, "1000m"))), asPods)
	w.quiet()
	if w.get(podResource, "a").GetUID() != uid {
		t.Error("recreated for the notation of a quantity, after a restart")
	}
	w.onSync(always(answer("", fmt.Sprintf(pods, "2"))))
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("the pod is recreated for a change that is immutable", func() bool {
		p := w.get(podResource, "a")
		return p != nil && p.GetUID() != uid
	})
	if writes := w.quiet(); len(writes) > 8 {
		t.Errorf("a recreation took %d requests: %v", len(writes), writes)
	}
}

// A child that cannot be changed in place: the failure is reported with object and
// field, backed off, and holds nothing else back.
func TestStatement31InPlaceOnImmutableIsReportedWithoutALoop(t *testing.T) {
	child := func(fixed string) string {
		return `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {size: 3, fixed: ` + fixed + `}}`
	}
	for name, changes := range map[string][]func(*applier.CompositeController){"partial": nil, "complete": {complete}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).run(always(answer(`{phase: One}`, child("one"))), changes...)
			w.parent("p", nil)
			w.eventually("the child exists", func() bool { return w.get(parts, "a") != nil })
			w.quiet()
			w.onSync(always(answer(`{phase: Two}`, child("two"), configMapA)))
			w.applier.Enqueue(w.namespace, "p")
			w.eventually("it is reported", func() bool {
				log := w.logs.String()
				return strings.Contains(log, "Part.exp.dev/v1 "+w.namespace+"/a: updating: ") && strings.Contains(log, "fixed is immutable")
			})
			w.eventually("the rest is done", func() bool {
				return w.get(configMaps, "a") != nil && field(w.get(trains, "p"), "status", "phase") == "Two"
			})
			w.eventually("it has failed four times", func() bool { return strings.Contains(w.logs.String(), "failures=4") })
			refused := func() float64 {
				return w.metric("rtj_applier_writes_total", "kind", "Part.exp.dev/v1", "result", "invalid")
			}
			n := refused()
			for range 200 {
				w.applier.Enqueue(w.namespace, "p")
			}
			w.eventually("it has failed five times", func() bool { return strings.Contains(w.logs.String(), "failures=5") })
			if got := refused() - n; got > 1 {
				t.Errorf("%v refused writes for 200 events", got)
			}
			if field(w.get(parts, "a"), "spec", "fixed") != "one" {
				t.Error("the child was recreated")
			}
		})
	}
}

func TestStatement39RollingStrategiesAreRefused(t *testing.T) {
	for _, m := range []applier.UpdateMethod{applier.RollingInPlace, applier.RollingRecreate} {
		t.Run(string(m), func(t *testing.T) {
			w := newWorld(t)
			w.parent("p", nil)
			config := rest.CopyConfig(server.config)
			config.Wrap(w.requests.wrap)
			c := controller(t, w.namespace, method(m))
			_, err := applier.New(applier.Options{Config: config, Controller: c, Hooks: w})
			for i := range c.Spec.ChildResources {
				want := fmt.Sprintf("CompositeController %s: spec.childResources[%d].updateStrategy.method: %s is not supported; use InPlace or Recreate and let the hook return one changed child at a time", w.namespace, i, m)
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			if requests := w.requests.take(); len(requests) > 0 || w.syncs.Load() > 0 {
				t.Errorf("%d syncs, requests %v", w.syncs.Load(), requests)
			}
		})
	}
}
