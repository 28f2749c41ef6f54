//go:build e2e

package applier_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const exampleDir = "../../examples/static-site"

var (
	sites       = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "staticsites"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	// eventsResource are the events that kubectl describe shows.
	eventsResource = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
)

// python is the example's hook.
type python struct {
	t       *testing.T
	address string
	cmd     *exec.Cmd
}

// pythonHook starts the hook at a free port, or at the port of address.
func pythonHook(t *testing.T, address ...string) *python {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	listen := "127.0.0.1:0"
	for _, a := range address {
		listen = strings.TrimPrefix(a, "http://")
	}
	p := &python{t: t, cmd: exec.Command(interpreter, filepath.Join(exampleDir, "hook.py"), "--listen", listen)}
	p.cmd.Stderr = io.Discard // a line a request
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	var found bool
	if _, p.address, found = strings.Cut(strings.TrimSpace(line), " at "); err != nil || !found {
		t.Fatalf("the hook says %q, %v", line, err)
	}
	return p
}

func (p *python) stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the hook, told to end: %v", err)
	}
}

func exampleObject(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(exampleDir, name))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
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

// rtjApply builds rtj and runs the example's controller with it, with the hook at
// address.
func (w *world) rtjApply(address string) {
	w.t.Helper()
	dir := w.t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "rtj"), ".")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(exampleDir, "controller.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("http://127.0.0.1:8090"), []byte(address))
	file := filepath.Join(dir, "controller.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "rtj"), "apply", "-f", file, "--kubeconfig", server.cluster.Kubeconfig)
	cmd.Stderr = w.logs
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			w.t.Errorf("rtj apply, told to end: %v", err)
		}
	})
}

// The example as its README runs it, with its Python process and rtj apply: a site,
// an edit, a repair, bad input, a hook that fails, and the deletion in order.
func TestExampleStaticSite(t *testing.T) {
	w := newWorld(t)
	installExample(t)
	hook := pythonHook(t)
	w.rtjApply(hook.address)

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
	_, err := server.client.Resource(sites).Namespace(w.namespace).Create(t.Context(), badSite(w.namespace), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a name has letters, digits, dash, dot and underscore only") {
		t.Errorf("a page that no ConfigMap can hold: %v", err)
	}

	// While the hook is away nothing changes, and whoever looks at the site is told.
	hook.stop()
	w.patch(sites, "hello", `{"spec":{"replicas":2}}`)
	w.eventually("the site has an event", func() bool {
		events, err := server.client.Resource(eventsResource).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e unstructured.Unstructured) bool {
			return field(&e, "regarding", "name") == "hello" && field(&e, "type") == "Warning" && field(&e, "reason") == "SyncError" &&
				strings.Contains(field(&e, "note"), "sync hook: POST "+hook.address+"/sync: dial tcp "+strings.TrimPrefix(hook.address, "http://")+": connect: connection refused")
		})
	})
	if got := field(w.get(deployments, "hello"), "spec", "replicas"); got != "3" {
		t.Errorf("without a hook there are %s replicas", got)
	}
	pythonHook(t, hook.address)
	w.eventually("the hook is asked again", func() bool { return field(w.get(deployments, "hello"), "spec", "replicas") == "2" })

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
