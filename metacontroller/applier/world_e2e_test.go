//go:build e2e

package applier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

// world is a namespace with an applier and hooks that the test is made of.
type world struct {
	t         testing.TB
	namespace string
	requests  *requests
	applier   *applier.Applier
	logs      *logs
	registry  *prometheus.Registry
	events    applier.Events
	stop      func()

	mu                        sync.Mutex
	sync, finalize            func(*contract.SyncRequest) (*contract.SyncResponse, error)
	customize                 func(*contract.CustomizeRequest) (*contract.CustomizeResponse, error)
	syncs, finalizes, customs atomic.Int64
	// block makes sync hang until its context ends.
	block bool
	// option, if set, changes how the applier is run.
	option func(*applier.Options)
}

func (w *world) Sync(ctx context.Context, r *contract.SyncRequest) (*contract.SyncResponse, error) {
	if !w.mine(r.Parent) {
		return nil, errors.New("another test's parent")
	}
	w.syncs.Add(1)
	if w.block {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w.mu.Lock()
	f := w.sync
	w.mu.Unlock()
	return f(r)
}

func (w *world) Finalize(_ context.Context, r *contract.SyncRequest) (*contract.SyncResponse, error) {
	w.finalizes.Add(1)
	w.mu.Lock()
	f := w.finalize
	w.mu.Unlock()
	return f(r)
}

func (w *world) Customize(_ context.Context, r *contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
	w.customs.Add(1)
	w.mu.Lock()
	f := w.customize
	w.mu.Unlock()
	return f(r)
}

func (w *world) mine(parent json.RawMessage) bool {
	return strings.Contains(string(parent), `"namespace":"`+w.namespace+`"`) || strings.Contains(string(parent), `"world":"`+w.namespace+`"`)
}

// onSync replaces the sync hook.
func (w *world) onSync(f func(*contract.SyncRequest) (*contract.SyncResponse, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sync = f
}

const baseController = `
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: NAME}
spec:
  parentResource:
    apiVersion: exp.dev/v1
    resource: trains
    labelSelector: {matchLabels: {world: NAME}}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  - {apiVersion: exp.dev/v1, resource: parts, updateStrategy: {method: InPlace}}
  generateSelector: true
  hooks:
    sync: {version: v2}
`

// controller returns the base CompositeController with changes.
func controller(t testing.TB, name string, changes ...func(*applier.CompositeController)) *applier.CompositeController {
	t.Helper()
	list, err := applier.Parse([]byte(strings.ReplaceAll(baseController, "NAME", name)))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(list[0])
	}
	return list[0]
}

func complete(c *applier.CompositeController) {
	annotated(applier.ChildrenAnnotation, applier.ChildrenComplete)(c)
}

func withFinalize(c *applier.CompositeController) {
	c.Spec.Hooks.Finalize = &applier.Hook{Version: "v2"}
}

func withCustomize(c *applier.CompositeController) {
	c.Spec.Hooks.Customize = &applier.Hook{Version: "v2"}
}

func method(m applier.UpdateMethod) func(*applier.CompositeController) {
	return func(c *applier.CompositeController) {
		for i := range c.Spec.ChildResources {
			c.Spec.ChildResources[i].UpdateStrategy = &applier.UpdateStrategy{Method: m}
		}
	}
}

var worlds atomic.Int64

// newWorld makes a namespace. Nothing runs yet.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, namespace: fmt.Sprintf("w%d", worlds.Add(1)), requests: &requests{}, logs: &logs{}}
	w.create(namespaces, "", object("v1", "Namespace", w.namespace, nil))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the applier:\n%s", w.logs)
		}
	})
	return w
}

// run starts an applier with the given hooks and stops it when the test ends.
func (w *world) run(hook func(*contract.SyncRequest) (*contract.SyncResponse, error), changes ...func(*applier.CompositeController)) *world {
	w.t.Helper()
	w.onSync(hook)
	return w.runWith(controller(w.t, w.namespace, changes...), w)
}

func (w *world) runWith(c *applier.CompositeController, hooks applier.Hooks) *world {
	w.t.Helper()
	config := rest.CopyConfig(server.config)
	config.Wrap(w.requests.wrap)
	w.registry = prometheus.NewRegistry()
	options := applier.Options{
		Config:     config,
		Controller: c,
		Hooks:      hooks,
		Registerer: w.registry,
		Events:     w.events,
		Logger:     w.logger(),
	}
	if w.option != nil {
		w.option(&options)
	}
	a, err := applier.New(options)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var once sync.Once
	w.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Error(err)
			}
		})
	}
	w.t.Cleanup(w.stop)
	w.mu.Lock()
	w.applier = a
	w.mu.Unlock()
	w.eventually("the applier is ready", a.Ready)
	return w
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// eventually fails the test if something does not come to be. The bound is for
// machines under load; no test is about how long it takes.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("it did not come to be that %s", what)
		}
	}
}

// quiet waits until nothing has been asked of hooks or API server for a while,
// and returns the requests since the last call.
func (w *world) quiet() []string {
	w.t.Helper()
	var all []string
	last := w.syncs.Load() + w.finalizes.Load()
	for calm := 0; calm < 30; calm++ {
		time.Sleep(10 * time.Millisecond)
		now := w.syncs.Load() + w.finalizes.Load()
		if seen := w.requests.take(); len(seen) > 0 || now != last {
			all, last, calm = append(all, seen...), now, 0
		}
	}
	return all
}

func object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// parent creates a Train that the applier of this world selects.
func (w *world) parent(name string, spec map[string]any) *unstructured.Unstructured {
	w.t.Helper()
	o := object("exp.dev/v1", "Train", name, spec)
	o.SetLabels(map[string]string{"world": w.namespace})
	return w.create(trains, w.namespace, o)
}

// fleet creates a Fleet, which is cluster-scoped, that an applier [ofFleets]
// selects.
func (w *world) fleet(name string, spec map[string]any) *unstructured.Unstructured {
	w.t.Helper()
	o := object("exp.dev/v1", "Fleet", w.namespace+"-"+name, spec)
	o.SetLabels(map[string]string{"world": w.namespace})
	w.t.Cleanup(func() {
		err := server.client.Resource(fleets).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Error(err)
		}
	})
	return w.create(fleets, "", o)
}

func ofFleets(c *applier.CompositeController) { c.Spec.ParentResource.Resource.Resource = "fleets" }

func annotated(annotation, value string) func(*applier.CompositeController) {
	return func(c *applier.CompositeController) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[annotation] = value
	}
}

func withSpecSelector(c *applier.CompositeController) { c.Spec.GenerateSelector = nil }

func (w *world) create(resource schema.GroupVersionResource, namespace string, o *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	created, err := server.client.Resource(resource).Namespace(namespace).Create(context.Background(), o, metav1.CreateOptions{FieldManager: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

// get returns an object of the world, or nil.
func (w *world) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.t.Helper()
	o, err := server.client.Resource(resource).Namespace(w.namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (w *world) patch(resource schema.GroupVersionResource, name, patch string, subresources ...string) *unstructured.Unstructured {
	w.t.Helper()
	o, err := server.client.Resource(resource).Namespace(w.namespace).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "someone"}, subresources...)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (w *world) delete(resource schema.GroupVersionResource, name string) {
	w.t.Helper()
	if err := server.client.Resource(resource).Namespace(w.namespace).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// field returns a field of an object as text, or "" if there is none.
func field(o *unstructured.Unstructured, path ...string) string {
	if o == nil {
		return ""
	}
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil || !found {
		return ""
	}
	return fmt.Sprint(value)
}

// answer makes a response of YAML texts: the children, and the status in the
// first, which may be empty.
func answer(status string, children ...string) *contract.SyncResponse {
	r := &contract.SyncResponse{}
	if status != "" {
		r.Status = rawYAML(status)
	}
	for _, c := range children {
		r.Children = append(r.Children, rawYAML(c))
	}
	return r
}

func rawYAML(text string) json.RawMessage {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	return raw
}

// always is a hook that answers the same each time.
func always(r *contract.SyncResponse) func(*contract.SyncRequest) (*contract.SyncResponse, error) {
	return func(*contract.SyncRequest) (*contract.SyncResponse, error) { return r, nil }
}

// edit returns a child as a complete hook does: as observed, without status and
// system metadata, with a change; or minimal, if it is not observed.
func edit(r *contract.SyncRequest, kind, key, minimal string, change func(map[string]any)) json.RawMessage {
	raw := r.Children.Get(kind, key)
	if raw == nil {
		return rawYAML(minimal)
	}
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		panic(err)
	}
	delete(o, "status")
	metadata := o["metadata"].(map[string]any)
	for _, k := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "finalizers"} {
		delete(metadata, k)
	}
	change(o)
	out, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return out
}

func parentName(r *contract.SyncRequest) string {
	var head struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(r.Parent, &head); err != nil {
		panic(err)
	}
	return head.Metadata.Name
}

// metric returns the sum of a counter, gauge or number of observations over the
// series that have the labels, given as name, value, name, value.
func (w *world) metric(name string, labels ...string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			has := map[string]string{}
			for _, pair := range m.GetLabel() {
				has[pair.GetName()] = pair.GetValue()
			}
			matches := true
			for i := 0; i < len(labels); i += 2 {
				matches = matches && has[labels[i]] == labels[i+1]
			}
			if matches {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// beforeFirst does something just before the first request of a method whose path
// ends so is sent. It returns whether that has happened.
func (w *world) beforeFirst(method, suffix string, do func()) *atomic.Bool {
	var done atomic.Bool
	w.requests.hook(func(r *http.Request) {
		if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) && done.CompareAndSwap(false, true) {
			do()
		}
	})
	return &done
}

func parentAnnotation(r *contract.SyncRequest, key string) string {
	var head struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(r.Parent, &head); err != nil {
		panic(err)
	}
	return head.Metadata.Annotations[key]
}

// controllerOf returns the owner that controls an object, or nil.
func controllerOf(o *unstructured.Unstructured) *metav1.OwnerReference {
	if o == nil {
		return nil
	}
	return metav1.GetControllerOf(o)
}
