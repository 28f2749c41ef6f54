//go:build e2e

package applier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

func TestStatement06FailedHookAppliesNothingAndIsRetried(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		if w.syncs.Load() < 4 {
			return answer(`{phase: Bad}`, configMapA), errors.New("cannot decide today")
		}
		return answer(`{phase: Good}`), nil
	})
	w.parent("p", nil)
	w.eventually("it is retried until it succeeds", func() bool {
		phase := field(w.get(trains, "p"), "status", "phase")
		if phase == "Bad" || w.get(configMaps, "a") != nil {
			t.Fatal("a failed answer was applied")
		}
		return phase == "Good"
	})
	if !strings.Contains(w.logs.String(), "cannot decide today") {
		t.Error("the failure is not logged")
	}
}

func TestHookThatHangsIsCutOff(t *testing.T) {
	w := newWorld(t)
	w.block = true
	w.run(always(answer("")), func(c *applier.CompositeController) {
		c.Spec.Hooks.Sync.Webhook = &applier.Webhook{Timeout: &metav1.Duration{Duration: 50 * time.Millisecond}}
	})
	w.parent("p", nil)
	w.eventually("the failure is logged", func() bool { return strings.Contains(w.logs.String(), "sync hook: context deadline exceeded") })
}

func TestRestartContinuesWithoutWrites(t *testing.T) {
	w := newWorld(t)
	hook := func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		return &contract.SyncResponse{Status: rawYAML(`{phase: Running}`), Children: []json.RawMessage{edit(r, "Part.exp.dev/v1", w.namespace+"/a",
			`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, items: [{name: x}]}}`, func(map[string]any) {})}}, nil
	}
	w.run(hook, complete)
	w.parent("p", nil)
	w.quiet()
	w.stop()
	w.run(hook, complete)
	if got := w.quiet(); len(got) > 0 {
		t.Errorf("requests after a restart: %v", got)
	}
}

// An applier that decides again before its caches show what it has just written
// would create, count or start things twice.
func TestOwnWritesAreSeenBeforeTheNextDecision(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		// One more child for each decision.
		response := answer("")
		for _, o := range r.Children.Kind("ConfigMap.v1") {
			response.Children = append(response.Children, o)
		}
		if n := len(response.Children); n < 3 {
			response.Children = append(response.Children, rawYAML(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}`, n)))
		}
		return response, nil
	})
	w.requests.delay(200 * time.Millisecond)
	w.parent("p", nil)
	for range 100 {
		w.applier.Enqueue(w.namespace, "p")
		time.Sleep(10 * time.Millisecond)
	}
	w.eventually("all children exist", func() bool { return w.get(configMaps, "c2") != nil })
	w.quiet()
	w.requests.delay(0)
	posts := 0
	for _, r := range w.requests.all {
		if strings.HasPrefix(r, "POST") {
			posts++
		}
	}
	if posts != 3 {
		t.Errorf("3 children took %d creations: %v", posts, w.requests.all)
	}
}

func TestRunStopsEverythingItStarted(t *testing.T) {
	before := runtime.NumGoroutine()
	w := newWorld(t)
	w.customize = func(*contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{{APIVersion: "v1", Resource: "services"}}}, nil
	}
	w.run(always(answer("", configMapA)), withCustomize)
	w.parent("p", nil)
	w.quiet()
	w.stop()
	// Idle connections of the HTTP client linger; they are no goroutines of ours.
	w.eventually("the goroutines are gone", func() bool {
		buffer := make([]byte, 1<<20)
		stacks := string(buffer[:runtime.Stack(buffer, true)])
		return !strings.Contains(stacks, "metacontroller/applier.") && !strings.Contains(stacks, "client-go/tools/cache") || runtime.NumGoroutine() <= before
	})
}

func TestRunRefusesWhatTheServerDoesNotOffer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*applier.CompositeController)
		want   string
	}{
		"no such parent": {func(c *applier.CompositeController) { c.Spec.ParentResource.Resource.Resource = "Train" },
			`spec.parentResource: the API server has no resource "Train" in exp.dev/v1; did you mean "trains"?`},
		"no such group":        {func(c *applier.CompositeController) { c.Spec.ParentResource.APIVersion = "no.dev/v1" }, "spec.parentResource: resources of no.dev/v1:"},
		"no status":            {func(c *applier.CompositeController) { c.Spec.ParentResource.Resource.Resource = "bares" }, "bares has no status subresource"},
		"no such child":        {func(c *applier.CompositeController) { c.Spec.ChildResources[0].Resource.Resource = "configs" }, `spec.childResources[0]: the API server has no resource "configs" in v1`},
		"cluster-scoped child": {func(c *applier.CompositeController) { c.Spec.ChildResources[0].Resource.Resource = "namespaces" }, "namespaces are cluster-scoped, and parents in a namespace cannot own them"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := applier.New(applier.Options{Config: server.config, Controller: controller(t, "x", c.change), Hooks: &world{}})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
