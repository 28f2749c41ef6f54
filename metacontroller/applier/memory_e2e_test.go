//go:build e2e

package applier_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

func TestStatement36ManagedFieldsAndLastAppliedAreDropped(t *testing.T) {
	w := newWorld(t)
	shown := make(chan string, 1000)
	w.customize = func(*contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{{APIVersion: "v1", Resource: "services", Namespace: w.namespace}}}, nil
	}
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		shown <- fmt.Sprintf("%s %s %s", r.Parent, r.Children, r.Related)
		return answer("", configMapA), nil
	}, withCustomize)
	second := strings.Repeat("z", 100_000)
	copies := `{"metadata":{"annotations":{"kept":"yes","kubectl.kubernetes.io/last-applied-configuration":"` + second + `","metacontroller.k8s.io/last-applied-configuration":"` + second + `"}}}`
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	service := object("v1", "Service", "s", map[string]any{"clusterIP": "None"})
	w.create(services, w.namespace, service)
	before := w.metric("rtj_applier_cache_bytes")
	w.patch(trains, "p", copies)
	w.patch(configMaps, "a", copies)
	w.patch(services, "s", copies)
	w.eventually("the hook sees all three as patched", func() bool { return strings.Count(<-shown, `"kept":"yes"`) == 3 })
	w.applier.Enqueue(w.namespace, "p")
	last := <-shown
	for _, dropped := range []string{"managedFields", "last-applied"} {
		if strings.Contains(last, dropped) {
			t.Errorf("the hook is shown %s", dropped)
		}
	}
	if grown := w.metric("rtj_applier_cache_bytes") - before; grown > 100_000 {
		t.Errorf("the caches grew by %v bytes for annotations that nobody reads", grown)
	}
}

const halfMiB = 1 << 19

// Where the selector is generated, only what carries its label is held.
func TestStatement36OnlyLabelledChildrenAreHeld(t *testing.T) {
	w := newWorld(t).run(always(answer("", configMapA)))
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	w.quiet()
	unowned := object("v1", "ConfigMap", "unowned", nil)
	unowned.Object["data"] = map[string]any{"x": strings.Repeat("u", halfMiB)}
	w.create(configMaps, w.namespace, unowned)
	n := w.syncs.Load()
	w.patch(configMaps, "a", `{"metadata":{"annotations":{"later":"yes"}}}`)
	w.eventually("what came after it is seen", func() bool { return w.syncs.Load() > n })
	if bytes := w.metric("rtj_applier_cache_bytes"); bytes == 0 || bytes > halfMiB {
		t.Errorf("%v bytes are held", bytes)
	}
}

func TestStatement36MetadataOnly(t *testing.T) {
	w := newWorld(t)
	shown := make(chan *contract.SyncRequest, 1000)
	w.customize = func(*contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{{APIVersion: "v1", Resource: "services", Namespace: w.namespace}}}, nil
	}
	big := strings.Repeat("b", halfMiB)
	child := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"l":"1"}},"data":{"x":"` + big + `"}}`
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		shown <- r
		if parentAnnotation(r, "drop") != "" {
			return answer(""), nil
		}
		return answer("", child), nil
	}, withCustomize, method(applier.OnDelete), annotated(applier.MetadataOnlyAnnotation, "configmaps, services"))
	w.create(services, w.namespace, object("v1", "Service", "s", map[string]any{"clusterIP": "None"}))
	w.parent("p", nil)
	var r *contract.SyncRequest
	w.eventually("the hook sees the child and the related object", func() bool {
		r = <-shown
		return r.Children.Get("ConfigMap.v1", w.namespace+"/a") != nil && r.Related.Get("Service.v1", w.namespace+"/s") != nil
	})
	for _, o := range []string{string(r.Children.Get("ConfigMap.v1", w.namespace+"/a")), string(r.Related.Get("Service.v1", w.namespace+"/s"))} {
		if !strings.Contains(o, `"kind":"`) || !strings.Contains(o, `"apiVersion":"v1"`) || !strings.Contains(o, `"uid":"`) {
			t.Errorf("kind or metadata is missing: %s", o)
		}
		if strings.Contains(o, `"data"`) || strings.Contains(o, `"spec"`) || strings.Contains(o, `"status"`) {
			t.Errorf("a body is shown: %.200s", o)
		}
	}
	if data := field(w.get(configMaps, "a"), "data", "x"); data != big {
		t.Error("the child was not created whole")
	}
	if bytes := w.metric("rtj_applier_cache_bytes"); bytes == 0 || bytes > halfMiB {
		t.Errorf("%v bytes are held", bytes)
	}
	w.quiet()
	w.applier.Enqueue(w.namespace, "p")
	if idle := w.quiet(); len(idle) > 0 {
		t.Errorf("idle requests: %v", idle)
	}
	w.patch(trains, "p", `{"metadata":{"annotations":{"drop":"yes"}}}`)
	w.eventually("the child is deleted", func() bool { return w.get(configMaps, "a") == nil })
}

func TestStatement36MetadataOnlyIsRefusedWhereBodiesAreNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		changes []func(*applier.CompositeController)
		want    string
	}{
		"compared":      {[]func(*applier.CompositeController){annotated(applier.MetadataOnlyAnnotation, "configmaps")}, "configmaps: a child without a body cannot be compared, so its update strategy must be OnDelete, not InPlace"},
		"parent":        {[]func(*applier.CompositeController){annotated(applier.MetadataOnlyAnnotation, "trains.exp.dev")}, "trains.exp.dev: is the parent"},
		"nobody's":      {[]func(*applier.CompositeController){annotated(applier.MetadataOnlyAnnotation, "jobs.batch")}, "jobs.batch: not among spec.childResources, and no customize hook"},
		"status wanted": {[]func(*applier.CompositeController){method(applier.OnDelete), decidesPartStatus, annotated(applier.MetadataOnlyAnnotation, "parts.exp.dev")}, "has no status to compare"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := applier.New(applier.Options{Config: server.config, Controller: controller(t, "x", c.changes...), Hooks: &world{}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// Parents with a child come and go, and nothing of them stays: 2,000 of them, or
// as many as E2E_PARENTS says.
func TestStatement36NothingOutlivesItsParent(t *testing.T) {
	const rounds, atOnce = 20, 16
	each := 2000 / rounds
	if text := os.Getenv("E2E_PARENTS"); text != "" {
		parents, err := strconv.Atoi(text)
		if err != nil || parents < 100 {
			t.Fatalf("E2E_PARENTS=%s: want a number from 100", text)
		}
		each = parents / rounds
	}
	w := newWorld(t)
	w.requests.unrecorded = true
	w.option = func(o *applier.Options) { o.Logger = slog.New(slog.DiscardHandler) }
	w.customize = func(r *contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{{APIVersion: "v1", Resource: "services", Namespace: w.namespace, Names: []string{"none"}}}}, nil
	}
	complete := make(map[string]chan struct{}) // closed when the hook sees the child
	var mu sync.Mutex
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		name := parentName(r)
		mu.Lock()
		defer mu.Unlock()
		if seen := complete[name]; seen != nil && r.Children.Len() > 0 {
			close(seen)
			delete(complete, name)
		}
		response := answer(`{phase: Running}`, configMap("of-"+name))
		response.ResyncAfterSeconds = 3600 // a time that the parent does not live to see
		return response, nil
	}, withCustomize)
	others := w.metric("rtj_applier_cache_objects", "scope", "trains.exp.dev/v1")
	var heaps []uint64
	for round := range rounds {
		var wg sync.WaitGroup
		names := make(chan string)
		for range atOnce {
			wg.Go(func() {
				for name := range names {
					seen := make(chan struct{})
					mu.Lock()
					complete[name] = seen
					mu.Unlock()
					if err := w.liveAndDie(name, seen); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		for i := range each {
			names <- fmt.Sprintf("r%d-%d", round, i)
		}
		close(names)
		wg.Wait()
		if t.Failed() {
			return
		}
		w.eventually("nothing is remembered and no object held", func() bool {
			return w.metric("rtj_applier_remembered") == 0 && w.metric("rtj_applier_cache_objects", "scope", "trains.exp.dev/v1") == others
		})
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heaps = append(heaps, m.HeapAlloc)
	}
	t.Logf("heap after each %d parents, in KiB: %v", each, kib(heaps))
	// The first rounds fill pools and connections. What follows would grow by
	// 100 bytes for each parent if only its name were kept.
	early, late := slices.Min(heaps[rounds/4:rounds/2]), slices.Min(heaps[3*rounds/4:])
	if parents := uint64(rounds / 2 * each); late > early+100*parents {
		t.Errorf("the heap grew from %d to %d KiB within about %d parents", early>>10, late>>10, parents)
	}
}

// liveAndDie creates a parent, waits until it is complete, and deletes it and its
// child.
func (w *world) liveAndDie(name string, complete <-chan struct{}) error {
	ctx := w.t.Context()
	o := object("exp.dev/v1", "Train", name, nil)
	o.SetLabels(map[string]string{"world": w.namespace})
	if _, err := server.client.Resource(trains).Namespace(w.namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return err
	}
	select {
	case <-complete:
	case <-time.After(30 * time.Second):
		return errors.New("the hook never saw the child")
	}
	if err := server.client.Resource(trains).Namespace(w.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := server.client.Resource(configMaps).Namespace(w.namespace).Delete(ctx, "of-"+name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the garbage collector was faster
	}
	return err
}

func kib(bytes []uint64) []uint64 {
	list := make([]uint64, len(bytes))
	for i, b := range bytes {
		list[i] = b >> 10
	}
	return list
}
