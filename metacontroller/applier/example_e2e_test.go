//go:build e2e

package applier_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/webhook"
)

const exampleDir = "../../examples/static-site"

var (
	sites       = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "staticsites"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// pythonHook starts the example's hook and returns where it listens.
func pythonHook(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	cmd := exec.Command(python, filepath.Join(exampleDir, "hook.py"), "--listen", "127.0.0.1:0")
	cmd.Stderr = io.Discard // a line a request
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the hook, told to end: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), " at ")
	if err != nil || !found {
		t.Fatalf("the hook says %q, %v", line, err)
	}
	return address
}

func exampleFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(exampleDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func exampleObject(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(exampleFile(t, name), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// installExample creates the kind StaticSite and waits until it is served.
func installExample(t *testing.T) {
	t.Helper()
	crds := server.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Create(t.Context(), exampleObject(t, "crd.yaml"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := crds.Delete(context.Background(), "staticsites.example.dev", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// The example, with its real Python process: a site, an edit, a repair, bad input,
// and the deletion in order.
func TestExampleStaticSite(t *testing.T) {
	w := newWorld(t)
	address := pythonHook(t)
	installExample(t)
	w.eventually("the kind is served", func() bool {
		_, err := server.client.Resource(sites).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	text := strings.ReplaceAll(string(exampleFile(t, "controller.yaml")), "http://127.0.0.1:8090", address)
	controllers, err := applier.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := webhook.New(webhook.Options{Controller: controllers[0], Logger: w.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hooks.Close)
	w.runWith(controllers[0], hooks)

	site := exampleObject(t, "site.yaml")
	site.SetNamespace(w.namespace)
	w.create(sites, w.namespace, site)
	w.eventually("the status is written", func() bool {
		s := w.get(sites, "hello")
		return field(s, "status", "pages") == "2" && field(s, "status", "url") == "http://hello."+w.namespace && field(s, "status", "observedGeneration") == "1"
	})
	if got := field(w.get(configMaps, "hello"), "data", "about.html"); got != "<p>Two pages, one object.</p>\n" {
		t.Errorf("about.html is %q", got)
	}
	for _, child := range []*unstructured.Unstructured{w.get(configMaps, "hello"), w.get(deployments, "hello"), w.get(services, "hello")} {
		if owner := metav1.GetControllerOf(child); owner == nil || owner.Kind != "StaticSite" || owner.Name != "hello" {
			t.Errorf("%s is controlled by %+v", child.GetKind(), owner)
		}
	}

	w.patch(sites, "hello", `{"spec":{"replicas":3,"pages":{"about.html":null,"news.html":"<p>None.</p>"}}}`)
	w.eventually("the children follow an edit", func() bool {
		pages := w.get(configMaps, "hello")
		return field(w.get(deployments, "hello"), "spec", "replicas") == "3" &&
			field(pages, "data", "about.html") == "" && field(pages, "data", "news.html") == "<p>None.</p>"
	})
	w.patch(services, "hello", `{"spec":{"selector":{"staticsites.example.dev/site":"another"}}}`)
	w.eventually("the Service is repaired", func() bool {
		return field(w.get(services, "hello"), "spec", "selector", "staticsites.example.dev/site") == "hello"
	})
	_, err = server.client.Resource(sites).Namespace(w.namespace).Create(t.Context(), badSite(w.namespace), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a name has letters, digits, dash, dot and underscore only") {
		t.Errorf("a page that no ConfigMap can hold: %v", err)
	}

	// Held by someone, the Service holds up the rest.
	w.patch(services, "hello", `{"metadata":{"finalizers":["example.dev/hold"]}}`)
	w.delete(sites, "hello")
	w.eventually("the Service is being deleted", func() bool { return w.get(services, "hello").GetDeletionTimestamp() != nil })
	time.Sleep(200 * time.Millisecond) // for whatever else would be deleted
	if w.get(deployments, "hello") == nil || w.get(configMaps, "hello") == nil || w.get(sites, "hello") == nil {
		t.Error("something went before the Service")
	}
	w.patch(services, "hello", `{"metadata":{"finalizers":null}}`)
	w.eventually("everything is gone", func() bool {
		return w.get(sites, "hello") == nil && w.get(services, "hello") == nil && w.get(deployments, "hello") == nil && w.get(configMaps, "hello") == nil
	})
}

func badSite(namespace string) *unstructured.Unstructured {
	site := object("example.dev/v1", "StaticSite", "bad", map[string]any{"pages": map[string]any{"a/b.html": ""}})
	site.SetNamespace(namespace)
	return site
}
