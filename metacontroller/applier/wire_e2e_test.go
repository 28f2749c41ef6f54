//go:build e2e

package applier_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/webhook"
)

// wire is a world whose hooks are reached over HTTP, and what was sent to them.
type wire struct {
	*world
	url    string
	server *httptest.Server

	mu     sync.Mutex
	sent   []sent
	answer http.HandlerFunc
}

// sent is one request.
type sent struct {
	method, path, contentType string
	body                      []byte
}

// newWire makes a world whose hooks answer with {} until they are told otherwise.
func newWire(t *testing.T) *wire {
	t.Helper()
	return newWireOn(t, httptest.NewServer)
}

func newWireOn(t *testing.T, listen func(http.Handler) *httptest.Server) *wire {
	t.Helper()
	x := &wire{world: newWorld(t)}
	x.answers(saying(`{}`))
	x.server = listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		x.mu.Lock()
		x.sent = append(x.sent, sent{r.Method, r.URL.Path, r.Header.Get("Content-Type"), body})
		answer := x.answer
		x.mu.Unlock()
		x.syncs.Add(1) // for quiet
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		answer(w, r)
	}))
	t.Cleanup(x.server.Close)
	x.url = x.server.URL
	return x
}

// answers replaces what answers.
func (x *wire) answers(f http.HandlerFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answer = f
}

// saying always answers the same, in YAML or JSON.
func saying(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(rawYAML(text)) }
}

// byPath answers by the hook that is asked.
func byPath(hooks map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { hooks[r.URL.Path](w, r) }
}

// start runs the applier with the hooks that the changes leave, each at the path of
// its name.
func (x *wire) start(changes ...func(*applier.CompositeController)) *applier.CompositeController {
	x.t.Helper()
	c := controller(x.t, x.namespace, append(changes, func(c *applier.CompositeController) {
		for name, hook := range map[string]*applier.Hook{"sync": c.Spec.Hooks.Sync, "finalize": c.Spec.Hooks.Finalize, "customize": c.Spec.Hooks.Customize} {
			if hook == nil {
				continue
			}
			if hook.Webhook == nil {
				hook.Webhook = &applier.Webhook{}
			}
			address := x.url + "/" + name
			hook.Webhook.URL = &address
		}
	})...)
	hooks, err := webhook.New(webhook.Options{Controller: c, Client: server.client, Logger: x.logger(), MaxResponseBytes: 1 << 20})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(hooks.Close) // after the applier has stopped
	x.runWith(c, hooks)
	return c
}

// requests to one hook so far.
func (x *wire) to(path string) []sent {
	x.mu.Lock()
	defer x.mu.Unlock()
	var list []sent
	for _, s := range x.sent {
		if s.path == path {
			list = append(list, s)
		}
	}
	return list
}

// last waits for a request to a hook and returns the newest.
func (x *wire) last(path string) sent {
	x.t.Helper()
	x.eventually("there is a request to "+path, func() bool { return len(x.to(path)) > 0 })
	list := x.to(path)
	return list[len(list)-1]
}

// fields returns the fields of the request's body.
func (s sent) fields(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(s.body, &fields); err != nil {
		t.Fatalf("%s: %v", s.body, err)
	}
	return fields
}

// keys returns the objects in children or related: "kind key", sorted, and the
// kinds without objects as "kind".
func (s sent) keys(t *testing.T, field string) []string {
	t.Helper()
	var kinds map[string]map[string]json.RawMessage
	if err := json.Unmarshal(s.fields(t)[field], &kinds); err != nil {
		t.Fatalf("%s: %v", s.body, err)
	}
	var keys []string
	for kind, objects := range kinds {
		if len(objects) == 0 {
			keys = append(keys, kind)
		}
		for key := range objects {
			keys = append(keys, kind+" "+key)
		}
	}
	slices.Sort(keys)
	return keys
}

// version makes all hooks speak one version.
func version(v string) func(*applier.CompositeController) {
	return func(c *applier.CompositeController) {
		for _, hook := range []*applier.Hook{c.Spec.Hooks.Sync, c.Spec.Hooks.Finalize, c.Spec.Hooks.Customize} {
			if hook != nil {
				hook.Version = v
			}
		}
	}
}

func TestStatement01RequestsHaveExactlyTheirKeys(t *testing.T) {
	x := newWire(t)
	x.answers(byPath(map[string]http.HandlerFunc{
		"/sync":      saying(`{}`),
		"/finalize":  saying(`{finalized: true}`),
		"/customize": saying(`{relatedResources: []}`),
	}))
	x.start(withFinalize, withCustomize)
	x.parent("p", nil)
	x.last("/sync")
	x.quiet()
	x.delete(trains, "p")
	x.eventually("the parent is gone", func() bool { return x.get(trains, "p") == nil })

	five := []string{"children", "controller", "finalizing", "parent", "related"}
	for path, want := range map[string][]string{"/sync": five, "/finalize": five, "/customize": {"controller", "parent"}} {
		list := x.to(path)
		if len(list) == 0 {
			t.Errorf("no request to %s", path)
		}
		for _, s := range list {
			if s.method != http.MethodPost || s.contentType != "application/json" {
				t.Errorf("%s %s with %q", s.method, s.path, s.contentType)
			}
			fields := s.fields(t)
			if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", path, got, want)
			}
			if path == "/customize" {
				continue
			}
			if got, want := string(fields["finalizing"]), map[string]string{"/sync": "false", "/finalize": "true"}[path]; got != want {
				t.Errorf("%s: finalizing is %s", path, got)
			}
		}
	}
}

func TestStatement02EveryDeclaredKindIsSent(t *testing.T) {
	x := newWire(t)
	x.start(func(c *applier.CompositeController) {
		c.Spec.ChildResources = append(c.Spec.ChildResources, applier.ChildResource{Resource: applier.Resource{APIVersion: "apps/v1", Resource: "deployments"}})
	})
	x.parent("p", nil)
	first := x.last("/sync")
	if got := string(first.fields(t)["children"]); got != `{"ConfigMap.v1":{},"Deployment.apps/v1":{},"Part.exp.dev/v1":{}}` {
		t.Errorf("children are %s", got)
	}
	if got := string(first.fields(t)["related"]); got != `{}` {
		t.Errorf("related are %s", got)
	}
	x.answers(saying(`{children: [` + configMapA + `, {apiVersion: exp.dev/v1, kind: Part, metadata: {name: b}}]}`))
	x.applier.Enqueue(x.namespace, "p")
	want := []string{"ConfigMap.v1 " + x.namespace + "/a", "Deployment.apps/v1", "Part.exp.dev/v1 " + x.namespace + "/b"}
	x.eventually("the children are sent by kind", func() bool { return slices.Equal(x.last("/sync").keys(t, "children"), want) })
}

// What is sent of children and related objects, and under which keys.
func TestStatement03KeysOfObjects(t *testing.T) {
	for _, c := range []struct {
		name    string
		version string
		// sync, if set, is another version than that of customize.
		sync            string
		children, other string
	}{
		{"v2", "v2", "", "NS/a", "ConfigMap.v1 NS/mine, ConfigMap.v1 OTHER/theirs, Namespace.v1 OTHER"},
		// v1 has no key for what is elsewhere, also where a v2 customize asks for it.
		{"sync v1, customize v2", "v2", "v1", "a", "ConfigMap.v1 mine, Namespace.v1"},
		{"no version", "", "", "a", "ConfigMap.v1 mine, Namespace.v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, other := newWire(t), newWorld(t)
			label := map[string]string{"seen-by": x.namespace}
			for _, o := range []struct{ namespace, name string }{{x.namespace, "mine"}, {other.namespace, "theirs"}} {
				x.create(configMaps, o.namespace, labelled(o.name, "seen-by", label["seen-by"]))
			}
			x.answers(byPath(map[string]http.HandlerFunc{
				"/sync": saying(`{children: [` + configMapA + `]}`),
				"/customize": saying(`{relatedResources: [
				  {apiVersion: v1, resource: configmaps, labelSelector: {matchLabels: {seen-by: ` + x.namespace + `}}},
				  {apiVersion: v1, resource: namespaces, names: [` + other.namespace + `]}]}`),
			}))
			x.start(withCustomize, version(c.version), func(cc *applier.CompositeController) {
				if c.sync != "" {
					cc.Spec.Hooks.Sync.Version = c.sync
				}
			})
			x.parent("p", nil)
			names := strings.NewReplacer("NS", x.namespace, "OTHER", other.namespace)
			children := []string{"ConfigMap.v1 " + names.Replace(c.children), "Part.exp.dev/v1"}
			x.eventually("the child is sent", func() bool { return slices.Equal(x.last("/sync").keys(t, "children"), children) })
			related := strings.Split(names.Replace(c.other), ", ")
			if got := x.last("/sync").keys(t, "related"); !slices.Equal(got, related) {
				t.Errorf("related are %v, want %v", got, related)
			}
		})
	}
}

// For a cluster-scoped parent both versions have the same keys.
func TestStatement03KeysForAClusterScopedParent(t *testing.T) {
	for _, v := range []string{"v1", "v2"} {
		t.Run(v, func(t *testing.T) {
			x := newWire(t)
			class := `class-of-` + x.namespace
			x.answers(saying(`{children: [
			  {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ` + x.namespace + `}},
			  {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: ` + class + `}, value: 1}]}`))
			x.start(version(v), func(c *applier.CompositeController) {
				c.Spec.ParentResource.Resource.Resource = "fleets"
				c.Spec.ChildResources = append(c.Spec.ChildResources, applier.ChildResource{Resource: applier.Resource{APIVersion: "scheduling.k8s.io/v1", Resource: "priorityclasses"}})
			})
			fleet := object("exp.dev/v1", "Fleet", x.namespace, nil)
			fleet.SetLabels(map[string]string{"world": x.namespace})
			x.create(fleets, "", fleet)
			t.Cleanup(func() {
				if err := server.client.Resource(fleets).Delete(context.Background(), x.namespace, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			})
			want := []string{"ConfigMap.v1 " + x.namespace + "/a", "Part.exp.dev/v1", "PriorityClass.scheduling.k8s.io/v1 " + class}
			x.eventually("the children are sent", func() bool { return slices.Equal(x.last("/sync").keys(t, "children"), want) })
		})
	}
}

// Objects that look like children, each but for one thing.
func TestStatement04OnlyOwnChildrenAreSent(t *testing.T) {
	for _, generated := range []bool{true, false} {
		t.Run(fmt.Sprintf("generateSelector=%v", generated), func(t *testing.T) {
			x := newWire(t)
			// The hook wants a, and keeps whatever else it is shown.
			x.answers(func(w http.ResponseWriter, r *http.Request) {
				var request struct {
					Children map[string]map[string]json.RawMessage
				}
				if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
					t.Error(err)
				}
				children := []json.RawMessage{rawYAML(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: p}}}`)}
				for key, o := range request.Children["ConfigMap.v1"] {
					if key != x.namespace+"/a" {
						children = append(children, o)
					}
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"children": children})
			})
			x.start(version("v2"), func(c *applier.CompositeController) { c.Spec.GenerateSelector = &generated })
			parent := x.parent("p", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "p"}}})
			set := map[string]string{"app": "p"}
			if generated {
				set = map[string]string{"controller-uid": string(parent.GetUID())}
			}
			own := x.namespace + "/a"
			x.eventually("the child is sent", func() bool { return slices.Contains(x.last("/sync").keys(t, "children"), "ConfigMap.v1 "+own) })

			reference := func(owner *unstructured.Unstructured, controls bool) []metav1.OwnerReference {
				return []metav1.OwnerReference{{APIVersion: "exp.dev/v1", Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &controls}}
			}
			put := func(name string, set map[string]string, owners []metav1.OwnerReference) {
				o := object("v1", "ConfigMap", name, nil)
				o.SetLabels(set)
				o.SetOwnerReferences(owners)
				x.create(configMaps, x.namespace, o)
			}
			other := x.create(parts, x.namespace, object("exp.dev/v1", "Part", "other", nil))
			put("of-someone-else", set, reference(other, true))
			put("without-labels", nil, nil)
			put("owned-not-controlled", nil, reference(parent, false))
			put("controlled-not-selected", map[string]string{"app": "x", "controller-uid": "x"}, reference(parent, true))
			x.quiet()
			x.patch(trains, "p", `{"metadata":{"annotations":{"touch":"1"}}}`)
			x.quiet()
			for _, s := range x.to("/sync") {
				for _, key := range s.keys(t, "children") {
					if key != "ConfigMap.v1" && key != "ConfigMap.v1 "+own && key != "Part.exp.dev/v1" {
						t.Errorf("%s was sent", key)
					}
				}
			}
		})
	}
}

func TestStatement05ControllerIsSent(t *testing.T) {
	x := newWire(t)
	given := x.start(func(c *applier.CompositeController) { c.Annotations = map[string]string{"a": "b"} })
	x.parent("p", nil)
	var got applier.CompositeController
	raw := x.last("/sync").fields(t)["controller"]
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.APIVersion != "metacontroller.k8s.io/v1alpha1" || got.Kind != "CompositeController" || got.Name != x.namespace || got.Annotations["a"] != "b" {
		t.Errorf("got %s", raw)
	}
	if want, have := asJSON(t, given.Spec), asJSON(t, got.Spec); want != have {
		t.Errorf("spec is %s, want %s", have, want)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
