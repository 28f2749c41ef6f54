//go:build e2e

package applier_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// server is an API server with its etcd, and the garbage collector, shared by the
// tests of this package. Each test has a namespace of its own.
var server struct {
	config *rest.Config
	client dynamic.Interface
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		bin := os.Getenv("RTJ_CONTROL_PLANE_BIN")
		if bin == "" {
			fmt.Println("RTJ_CONTROL_PLANE_BIN is not set: no API server to test against")
			return 1
		}
		dir, err := os.MkdirTemp("", "applier-e2e-")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		stop, err := startServer(bin, dir)
		defer stop()
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if err := createKinds(); err != nil {
			fmt.Println(err)
			return 1
		}
		return m.Run()
	}())
}

func startServer(bin, dir string) (stop func(), err error) {
	var processes []*exec.Cmd
	stop = func() {
		for _, p := range processes {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	}
	run := func(name string, args ...string) error {
		log, err := os.Create(filepath.Join(dir, name+".log"))
		if err != nil {
			return err
		}
		p := exec.Command(filepath.Join(bin, name), args...)
		p.Dir, p.Stdout, p.Stderr = dir, log, log
		if err := p.Start(); err != nil {
			return err
		}
		processes = append(processes, p)
		return nil
	}
	ports := make([]string, 4)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return stop, err
		}
		defer l.Close()
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
		l.Close()
	}
	etcd, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	if err := run("server", "--data-dir", "etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--unsafe-no-fsync", "--log-level", "error"); err != nil {
		return stop, err
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte("admin,admin,admin,system:masters\n"), 0o600); err != nil {
		return stop, err
	}
	if out, err := exec.Command("openssl", "genrsa", "-out", filepath.Join(dir, "sa.key"), "2048").CombinedOutput(); err != nil {
		return stop, fmt.Errorf("openssl: %w: %s", err, out)
	}
	if err := run("kube-apiserver", "--etcd-servers="+etcd, "--secure-port="+ports[2], "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--cert-dir=certs", "--token-auth-file=tokens.csv", "--authorization-mode=AlwaysAllow",
		"--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key", "--service-account-issuer=https://kubernetes.default.svc",
		"--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24",
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"); err != nil {
		return stop, err
	}
	server.config = &rest.Config{Host: "https://127.0.0.1:" + ports[2], BearerToken: "admin", QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	kubeconfig := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {token: admin}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n", server.config.Host)
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(kubeconfig), 0o600); err != nil {
		return stop, err
	}
	if server.client, err = dynamic.NewForConfig(server.config); err != nil {
		return stop, err
	}
	if err := waitReady(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "kube-apiserver.log"))
		return stop, fmt.Errorf("%w\n%s", err, log[max(0, len(log)-4000):])
	}
	return stop, run("kube-controller-manager", "--kubeconfig=kubeconfig", "--controllers=garbage-collector-controller,namespace-controller",
		"--leader-elect=false", "--secure-port="+ports[3], "--bind-address=127.0.0.1", "--cert-dir=certs-kcm", "--kube-api-qps=500", "--kube-api-burst=1000")
}

func waitReady() error {
	client, err := rest.HTTPClientFor(server.config)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		response, err := client.Get(server.config.Host + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return fmt.Errorf("the API server did not become ready")
}

const kindsYAML = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trains.exp.dev}
spec:
  group: exp.dev
  scope: Namespaced
  names: {plural: trains, singular: train, kind: Train}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              observedGeneration: {type: integer}
              phase: {type: string}
              message: {type: string}
              seen: {type: integer}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.exp.dev}
spec:
  group: exp.dev
  scope: Namespaced
  names: {plural: parts, singular: part, kind: Part}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 3}
              color: {type: string}
              note: {type: string}
              fixed: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf", message: fixed is immutable}]}
              active: {type: boolean}
              items: {type: array, items: {type: object, properties: {name: {type: string}, mode: {type: string, default: auto}}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bares.exp.dev}
spec:
  group: exp.dev
  scope: Namespaced
  names: {plural: bares, singular: bare, kind: Bare}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var (
	trains     = schema.GroupVersionResource{Group: "exp.dev", Version: "v1", Resource: "trains"}
	parts      = schema.GroupVersionResource{Group: "exp.dev", Version: "v1", Resource: "parts"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

func createKinds() error {
	crds := server.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for document := range strings.SplitSeq(kindsYAML, "---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return err
		}
		if _, err := crds.Create(context.Background(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, resource := range []schema.GroupVersionResource{trains, parts} {
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			if _, err := server.client.Resource(resource).List(context.Background(), metav1.ListOptions{}); err == nil {
				break
			} else if time.Now().After(deadline) {
				return err
			}
		}
	}
	return nil
}

// requests records what one client asked of the API server, without watches and
// lists, which are what caches are made of.
type requests struct {
	mu   sync.Mutex
	seen []string
	all  []string
	// slow is how late the events of watches come.
	slow time.Duration
	// before, if set, is called before a request is sent.
	before func(*http.Request)
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		isRead := request.Method == http.MethodGet && (query.Has("watch") || query.Has("limit") || query.Has("resourceVersion") || query.Has("sendInitialEvents"))
		discovery := request.Method == http.MethodGet && len(strings.Split(strings.Trim(request.URL.Path, "/"), "/")) <= 3
		r.mu.Lock()
		before := r.before
		r.mu.Unlock()
		if !isRead && !discovery {
			if before != nil {
				before(request)
			}
			what := request.Method + " " + request.URL.Path[strings.LastIndex(strings.TrimSuffix(request.URL.Path, "/status"), "/")+1:]
			r.mu.Lock()
			r.seen, r.all = append(r.seen, what), append(r.all, what)
			r.mu.Unlock()
		}
		response, err := next.RoundTrip(request)
		if err == nil && query.Has("watch") {
			response.Body = &late{response.Body, r}
		}
		return response, err
	})
}

// late is the body of a watch whose events come late.
type late struct {
	io.ReadCloser
	requests *requests
}

func (l *late) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.requests.mu.Lock()
	slow := l.requests.slow
	l.requests.mu.Unlock()
	time.Sleep(slow)
	return n, err
}

// delay makes the events of watches come late.
func (r *requests) delay(slow time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = slow
}

// take returns what was recorded and starts afresh.
func (r *requests) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

func (r *requests) hook(before func(*http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// logs is a test's log, shown when it fails.
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
