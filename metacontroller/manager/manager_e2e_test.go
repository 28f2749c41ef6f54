//go:build e2e

package manager

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/metacontroller/applier"
)

// What the cluster lacks refuses one controller and no other, and is waited for.
func TestFaultyControllersDoNotStopTheOthers(t *testing.T) {
	w := newWorld(t)
	w.train("t", "good")
	w.run(Options{Controllers: []*applier.CompositeController{
		w.parsed("good"),
		w.parsed("later", "resource: configmaps", "resource: wagons", "apiVersion: v1,", "apiVersion: exp.dev/v1,"),
		w.parsed("bare", "resource: trains", "resource: bares"),
	}})
	w.eventually("it is ready in spite of two that are refused", func() bool { return w.Ready() == nil })
	w.eventually("the good one works", func() bool { return w.get(configMaps, "t-of-"+w.name("good")) != nil })
	for _, want := range [][]string{
		{"CompositeController refused", w.name("later"), `spec.childResources[0]`, `no resource \"wagons\" in exp.dev/v1`, "retryIn"},
		{"CompositeController refused", w.name("bare"), "spec.parentResource", "bares has no status subresource", "retryIn"},
	} {
		w.eventually("the log has "+strings.Join(want, " ... "), func() bool { return hasLine(w.logs.String(), want...) })
	}
	if running, refused := w.count("running"), w.count("refused"); running != 1 || refused != 2 {
		t.Errorf("%v are running and %v refused", running, refused)
	}
	if err := server.cluster.ApplyCRDs(t.Context(), []byte(kind("wagons", true))); err != nil {
		t.Fatal(err)
	}
	w.eventually("the one that waited for a CRD is run", func() bool { return w.count("running") == 2 })
}

func hasLine(text string, parts ...string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return true
		}
	}
	return false
}

func TestNamesMustDiffer(t *testing.T) {
	w := newWorld(t)
	c := w.parsed("twice")
	if _, err := New(Options{Config: server.config, Controllers: []*applier.CompositeController{c, c}}); err == nil || !strings.Contains(err.Error(), w.name("twice")+" occurs twice") {
		t.Errorf("got %v", err)
	}
}

// The cluster's controllers are followed: added, edited, refused, mended, deleted.
func TestControllersOfTheCluster(t *testing.T) {
	w := newWorld(t)
	w.train("t", "good")
	w.train("r", "rolling")
	w.create(compositeControllers, "", w.controller("good"))
	w.create(compositeControllers, "", w.controller("rolling", "InPlace", "RollingInPlace"))
	w.run(Options{FromCluster: true, Selector: w.selected()})
	w.eventually("it is ready", func() bool { return w.Ready() == nil })
	w.eventually("the good one works", func() bool { return w.get(configMaps, "t-of-"+w.name("good")) != nil })
	w.eventually("the refused one has an event", func() bool {
		return strings.Contains(w.event(w.name("rolling"), "Warning", ReasonRefused), "spec.childResources[0].updateStrategy.method: RollingInPlace is not supported")
	})
	w.eventually("the good one has an event", func() bool { return w.event(w.name("good"), "Normal", ReasonStarted) != "" })
	if !hasLine(w.logs.String(), "CompositeController refused", w.name("rolling"), "RollingInPlace is not supported") {
		t.Error("the log does not name object and rule")
	}

	w.patchController("rolling", `{"spec":{"childResources":[{"apiVersion":"v1","resource":"configmaps","updateStrategy":{"method":"InPlace"}}]}}`)
	w.eventually("the mended one works", func() bool { return w.get(configMaps, "r-of-"+w.name("rolling")) != nil })

	// A label or a status is no reason to restart; an annotation and the spec are.
	w.patchController("good", `{"metadata":{"labels":{"more":"yes"}}}`)
	w.patchController("good", `{"metadata":{"annotations":{"restarted":"1"}}}`)
	w.eventually("it is restarted for an annotation", func() bool { return w.times(w.opened, "good") == 2 })
	w.patchController("good", `{"spec":{"resyncPeriodSeconds":60}}`)
	w.eventually("it is restarted for its spec", func() bool { return w.times(w.opened, "good") == 3 })
	w.eventually("both run", func() bool { return w.count("running") == 2 })
	w.train("u", "good")
	w.eventually("it works as before", func() bool { return w.get(configMaps, "u-of-"+w.name("good")) != nil })

	// Made invalid, it stops.
	w.patchController("good", `{"spec":{"hooks":{"sync":{"version":"v7"}}}}`)
	w.eventually("it is stopped", func() bool { return w.times(w.open, "good") == 0 && w.count("refused") == 1 })
	w.deleteController("good")
	w.eventually("it is forgotten", func() bool { return w.count("refused") == 0 && w.count("stopped") == 0 })
	w.stop()
	if n := w.times(w.opened, "good"); n != 3 {
		t.Errorf("it was started %d times: at first, for an annotation, and for its spec is three", n)
	}
	if n := w.times(w.most, "good"); n != 1 {
		t.Errorf("%d appliers of one controller ran at once", n)
	}
}

// One that loses the labels of the selector is another manager's from then on.
func TestDeselectedControllerKeepsItsFinalizers(t *testing.T) {
	w := newWorld(t)
	w.train("t", "a")
	w.create(compositeControllers, "", w.controller("a", "hooks: {", "hooks: {finalize: {version: v2, webhook: {url: 'http://127.0.0.1/'}}, "))
	w.run(Options{FromCluster: true, Selector: w.selected()})
	w.eventually("the finalizer is there", func() bool { return len(w.get(trains, "t").GetFinalizers()) == 1 })
	w.patchController("a", `{"metadata":{"labels":{"world":"another"}}}`)
	w.eventually("it is stopped and forgotten", func() bool { return w.times(w.open, "a") == 0 && w.count("stopped") == 0 && w.count("running") == 0 })
	if len(w.get(trains, "t").GetFinalizers()) != 1 {
		t.Error("the finalizer is removed although the controller exists")
	}
	w.deleteController("a")
}

// A deleted controller takes its finalizer along, so that no parent hangs.
func TestDeletedControllerReleasesItsParents(t *testing.T) {
	w := newWorld(t)
	w.train("stays", "a")
	w.train("goes", "a")
	w.create(compositeControllers, "", w.controller("a", "hooks: {", "hooks: {finalize: {version: v2, webhook: {url: 'http://127.0.0.1/'}}, "))
	w.run(Options{FromCluster: true, Selector: w.selected()})
	for _, name := range []string{"stays", "goes"} {
		w.eventually("the finalizer is there", func() bool { return len(w.get(trains, name).GetFinalizers()) == 1 })
	}
	if err := server.client.Resource(trains).Namespace(w.namespace).Delete(context.Background(), "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the finalize hook is called", func() bool { return w.finalizes.Load() > 0 })
	w.deleteController("a")
	w.eventually("the one that is being deleted is gone", func() bool { return w.get(trains, "goes") == nil })
	w.eventually("the other one has no finalizer", func() bool { return len(w.get(trains, "stays").GetFinalizers()) == 0 })
	w.eventually("the log says so", func() bool {
		return hasLine(w.logs.String(), "finalizers removed", "metacontroller.io/compositecontroller-"+w.name("a"), "parents=2")
	})
	if w.get(configMaps, "stays-of-"+w.name("a")) == nil {
		t.Error("a child is gone")
	}
}

func TestKeepFinalizers(t *testing.T) {
	w := newWorld(t)
	w.train("t", "a")
	w.create(compositeControllers, "", w.controller("a", "hooks: {", "hooks: {finalize: {version: v2, webhook: {url: 'http://127.0.0.1/'}}, "))
	w.run(Options{FromCluster: true, Selector: w.selected(), KeepFinalizers: true})
	w.eventually("the finalizer is there", func() bool { return len(w.get(trains, "t").GetFinalizers()) == 1 })
	w.deleteController("a")
	w.eventually("the log says so", func() bool { return hasLine(w.logs.String(), "parents keep the finalizer", w.name("a")) })
	if len(w.get(trains, "t").GetFinalizers()) != 1 {
		t.Error("the finalizer is removed")
	}
	if err := ReleaseFinalizers(t.Context(), server.client, w.parsed("a"), func(string, string) {}); err != nil {
		t.Fatal(err)
	}
	if len(w.get(trains, "t").GetFinalizers()) != 0 {
		t.Error("the finalizer is not removed on demand")
	}
}
