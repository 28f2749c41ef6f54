//go:build e2e

package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/test/cluster"
)

// server is the API server of a local cluster, shared by the tests.
var server struct {
	cluster *cluster.Cluster
	config  *rest.Config
	client  dynamic.Interface
}

func TestMain(m *testing.M) {
	os.Exit(cluster.RunTests(func(c *cluster.Cluster) (err error) {
		server.cluster = c
		server.config = rest.CopyConfig(c.RESTConfig)
		server.config.QPS = -1
		if server.client, err = dynamic.NewForConfig(server.config); err != nil {
			return err
		}
		crds, err := os.ReadFile("../../test/harness/metacontroller-crds.yaml")
		if err != nil {
			return err
		}
		return c.ApplyCRDs(context.Background(), append(crds, []byte("---\n"+kind("trains", true)+"---\n"+kind("bares", false))...))
	}, m.Run))
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	trains      = schema.GroupVersionResource{Group: "exp.dev", Version: "v1", Resource: "trains"}
	events      = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// kind is the CRD of a kind, with or without a status subresource.
func kind(plural string, status bool) string {
	subresources := "{}"
	if status {
		subresources = "{status: {}}"
	}
	singular := strings.TrimSuffix(plural, "s")
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.exp.dev}
spec:
  group: exp.dev
  scope: Namespaced
  names: {plural: %s, singular: %s, kind: %s}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: %s
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, plural, singular, strings.ToUpper(singular[:1])+singular[1:], subresources)
}

// world is a namespace and a manager whose hooks answer with one ConfigMap for
// each parent.
type world struct {
	*testing.T
	namespace string
	*Manager
	logs     *logs
	registry *prometheus.Registry
	stop     func()

	mu sync.Mutex
	// open counts the hooks of each controller that are not closed, most is the
	// most there ever were, opened how often there were new ones.
	open, most, opened map[string]int
	finalizes          atomic.Int64
}

type logs struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

var worlds atomic.Int64

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, namespace: fmt.Sprintf("w%d", worlds.Add(1)), logs: &logs{}, registry: prometheus.NewRegistry(),
		open: map[string]int{}, most: map[string]int{}, opened: map[string]int{}}
	w.create(namespaces, "", &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": w.namespace}}})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the manager:\n%s", w.logs)
		}
	})
	return w
}

// run starts a manager and ends it with the test.
func (w *world) run(o Options) {
	w.Helper()
	logger := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	recorder, err := NewRecorder(RecorderOptions{Config: server.config, Component: w.namespace, Host: "test", Logger: logger})
	if err != nil {
		w.Fatal(err)
	}
	o.Config, o.Hooks, o.Logger, o.Registerer, o.Events = server.config, w.hooks, logger, w.registry, recorder
	if w.Manager, err = New(o); err != nil {
		w.Fatal(err)
	}
	w.releaseDelay = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Manager.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		recorder.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		for name, n := range w.open {
			if n != 0 {
				w.Errorf("%d hooks of %s are not closed", n, name)
			}
		}
	})
	w.Cleanup(w.stop)
}

// selected is the selector of the CompositeControllers of this world.
func (w *world) selected() labels.Selector {
	return labels.SelectorFromSet(labels.Set{"world": w.namespace})
}

func (w *world) hooks(c *applier.CompositeController) (Hooks, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened[c.Name]++
	w.open[c.Name]++
	w.most[c.Name] = max(w.most[c.Name], w.open[c.Name])
	return &hooks{w, c.Name}, nil
}

type hooks struct {
	w    *world
	name string
}

func (h *hooks) Close() {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.open[h.name]--
}

func (h *hooks) Sync(_ context.Context, r *contract.SyncRequest) (*contract.SyncResponse, error) {
	var parent struct{ Metadata struct{ Name string } }
	if err := yaml.Unmarshal(r.Parent, &parent); err != nil {
		return nil, err
	}
	child, err := yaml.YAMLToJSON(fmt.Appendf(nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-of-%s}}", parent.Metadata.Name, h.name))
	return &contract.SyncResponse{Children: []json.RawMessage{child}}, err
}

func (h *hooks) Finalize(context.Context, *contract.SyncRequest) (*contract.SyncResponse, error) {
	h.w.finalizes.Add(1)
	return &contract.SyncResponse{}, nil // never lets go
}

func (h *hooks) Customize(context.Context, *contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
	return &contract.CustomizeResponse{}, nil
}

// controller is a CompositeController of Trains of this world, with changes as
// pairs of old and new text.
func (w *world) controller(name string, changes ...string) *unstructured.Unstructured {
	w.Helper()
	text := strings.NewReplacer(changes...).Replace(`
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: NAME, labels: {world: WORLD}}
spec:
  parentResource: {apiVersion: exp.dev/v1, resource: trains, labelSelector: {matchLabels: {by: NAME}}}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  generateSelector: true
  hooks: {sync: {version: v2, webhook: {url: "http://127.0.0.1/"}}}
`)
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.NewReplacer("NAME", w.name(name), "WORLD", w.namespace).Replace(text)), &object.Object); err != nil {
		w.Fatal(err)
	}
	return object
}

// name makes a name of this world: CompositeControllers are cluster-scoped.
func (w *world) name(name string) string { return w.namespace + "-" + name }

func (w *world) parsed(name string, changes ...string) *applier.CompositeController {
	w.Helper()
	c, err := applier.FromObject(w.controller(name, changes...))
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// train creates a parent that one of the controllers has.
func (w *world) train(name, by string) {
	w.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "exp.dev/v1", "kind": "Train"}}
	o.SetName(name)
	o.SetLabels(map[string]string{"by": w.name(by)})
	w.create(trains, w.namespace, o)
}

func (w *world) create(resource schema.GroupVersionResource, namespace string, o *unstructured.Unstructured) {
	w.Helper()
	if _, err := server.client.Resource(resource).Namespace(namespace).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) patchController(name, patch string) {
	w.Helper()
	if _, err := server.client.Resource(compositeControllers).Patch(context.Background(), w.name(name), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) deleteController(name string) {
	w.Helper()
	if err := server.client.Resource(compositeControllers).Delete(context.Background(), w.name(name), metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.Helper()
	o, err := server.client.Resource(resource).Namespace(w.namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// event returns the message of an event about an object, or "".
func (w *world) event(object, eventType, reason string) string {
	w.Helper()
	list, err := server.client.Resource(events).List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Object["type"] == eventType && e.Object["reason"] == reason {
			return e.Object["message"].(string)
		}
	}
	return ""
}

// eventually fails the test if something does not come to be.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("it did not come to be that %s", what)
		}
	}
}

func (w *world) times(counts map[string]int, name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return counts[w.name(name)]
}

// count is the number of controllers in a state, by the metric.
func (w *world) count(state string) float64 {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "rtj_manager_controllers" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == state {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}
