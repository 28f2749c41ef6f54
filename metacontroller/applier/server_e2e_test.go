//go:build e2e

package applier_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/test/cluster"
)

// server is the API server of a local cluster, shared by the tests of this
// package. Each test has a namespace of its own.
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
		return c.ApplyCRDs(context.Background(), []byte(kindsYAML))
	}, m.Run))
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
metadata: {name: fleets.exp.dev}
spec:
  group: exp.dev
  scope: Cluster
  names: {plural: fleets, singular: fleet, kind: Fleet}
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
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
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
	fleets     = schema.GroupVersionResource{Group: "exp.dev", Version: "v1", Resource: "fleets"}
	trains     = schema.GroupVersionResource{Group: "exp.dev", Version: "v1", Resource: "trains"}
	parts      = schema.GroupVersionResource{Group: "exp.dev", Version: "v1", Resource: "parts"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// requests records what one client asked of the API server, without watches and
// lists, which are what caches are made of.
type requests struct {
	mu   sync.Mutex
	seen []string
	all  []string
	// slow is how late the events of watches come.
	slow time.Duration
	// before, if set, is called before a request is sent, other than those of caches.
	before func(*http.Request)
	// around, if set, does every request.
	around func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)
	// unrecorded says that there will be too many requests to keep.
	unrecorded bool
	watches    map[*late]bool
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		isRead := request.Method == http.MethodGet && (query.Has("watch") || query.Has("limit") || query.Has("resourceVersion") || query.Has("sendInitialEvents"))
		discovery := request.Method == http.MethodGet && len(strings.Split(strings.Trim(request.URL.Path, "/"), "/")) <= 3
		r.mu.Lock()
		before, around := r.before, r.around
		r.mu.Unlock()
		if !isRead && !discovery {
			if before != nil {
				before(request)
			}
			r.record(request.Method + " " + request.URL.Path[strings.LastIndex(strings.TrimSuffix(request.URL.Path, "/status"), "/")+1:])
		}
		send := func() (*http.Response, error) { return next.RoundTrip(request) }
		if around != nil {
			sent := send
			send = func() (*http.Response, error) { return around(request, sent) }
		}
		response, err := send()
		if err == nil && query.Has("watch") {
			response.Body = r.watch(response.Body)
		}
		return response, err
	})
}

func (r *requests) record(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.unrecorded {
		r.seen, r.all = append(r.seen, what), append(r.all, what)
	}
}

func (r *requests) watch(body io.ReadCloser) io.ReadCloser {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watches == nil {
		r.watches = map[*late]bool{}
	}
	l := &late{body, r}
	r.watches[l] = true
	return l
}

// cut ends the watches that are open.
func (r *requests) cut() {
	r.mu.Lock()
	open := slices.Collect(maps.Keys(r.watches))
	r.mu.Unlock()
	for _, l := range open {
		_ = l.Close()
	}
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

func (l *late) Close() error {
	l.requests.mu.Lock()
	delete(l.requests.watches, l)
	l.requests.mu.Unlock()
	return l.ReadCloser.Close()
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

// through has every request done by a function, which may send it.
func (r *requests) through(around func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.around = around
}

// bodyOf returns the object that a request sends.
func bodyOf(r *http.Request) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if r.GetBody == nil {
		return o
	}
	body, err := r.GetBody()
	if err != nil {
		panic(err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		panic(err)
	}
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		panic(err)
	}
	return o
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
