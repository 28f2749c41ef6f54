//go:build e2e

package differential

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"rtj.dev/rtj/test/cluster"
)

const (
	// quietFor is how long nothing may have happened for the cluster to be at rest:
	// Kueue tries again what waits a second after a change.
	quietFor = 2 * time.Second
	// dueWithin is how long is waited for what time brings.
	dueWithin = 30 * time.Second
	pollRest  = 50 * time.Millisecond
)

// realCluster is a local cluster.
type realCluster struct {
	*cluster.Cluster
	client dynamic.Interface
}

func startCluster(t *testing.T, o cluster.Options) *realCluster {
	t.Helper()
	o.Progress = t.Output()
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := dynamic.NewForConfig(c.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	return &realCluster{c, client}
}

// real is a namespace of a cluster.
type real struct {
	part part
	ns   string
	c    *realCluster

	mu      sync.Mutex
	last    map[string]string
	changes []versioned
	moved   time.Time // when anything last changed
}

// versioned is a change, with the version that it made: all kinds count together.
type versioned struct {
	change
	version int64
}

func newReal(t *testing.T, p part, c *realCluster, namespace string) *real {
	t.Helper()
	r := &real{part: p, ns: namespace, c: c, last: map[string]string{}, moved: time.Now()}
	if err := r.create(object{"kind": "Namespace", "metadata": object{"name": namespace}}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range p.kinds() {
		w, err := r.of(kind).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.trace(kind, w)
		}()
		t.Cleanup(func() {
			w.Stop()
			<-ended
		})
	}
	return r
}

// trace notes every version that a watch tells of.
func (r *real) trace(kind string, w watch.Interface) {
	for e := range w.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok || !r.ours(kind, u.GetName()) {
			continue
		}
		state := "gone"
		if e.Type != watch.Deleted {
			state = r.part.state[kind](u.Object)
		}
		key := strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
		c := versioned{change: change{kind + " " + key, state}}
		c.version, _ = strconv.ParseInt(u.GetResourceVersion(), 10, 64)
		r.mu.Lock()
		if r.last[c.object] != state {
			r.last[c.object], r.moved = state, time.Now()
			if slices.Contains(r.part.traced, kind) {
				r.changes = append(r.changes, c)
			}
		}
		r.mu.Unlock()
	}
}

// ours: what has no namespace has the script's in its name.
func (r *real) ours(kind, name string) bool {
	return namespaced(kind) || name == r.ns || strings.HasSuffix(name, "-"+r.ns)
}

// rest returns once nothing has happened for a while, and what happened until then.
// First something must happen, where it is waited for.
func (r *real) rest(t *testing.T, something bool) (seen []change) {
	t.Helper()
	begun := time.Now()
	for {
		r.mu.Lock()
		moved, n := r.moved, len(r.changes)
		r.mu.Unlock()
		if something && n == 0 && time.Since(begun) > dueWithin {
			t.Fatalf("nothing became due within %s", dueWithin)
		}
		if (!something || n > 0) && time.Since(moved) > quietFor && time.Since(begun) > quietFor {
			break
		}
		time.Sleep(pollRest)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.changes, func(a, b versioned) int { return cmp.Compare(a.version, b.version) })
	for _, c := range r.changes {
		seen = append(seen, c.change)
	}
	r.changes = nil
	return seen
}

func (r *real) of(kind string) dynamic.ResourceInterface {
	gv, err := schema.ParseGroupVersion(apiVersions[kind])
	if err != nil {
		panic(err) // in the table above
	}
	plural := strings.ToLower(kind) + "s"
	if strings.HasSuffix(plural, "ss") {
		plural = strings.TrimSuffix(plural, "s") + "es"
	}
	client := r.c.client.Resource(gv.WithResource(plural))
	if namespaced(kind) {
		return client.Namespace(r.ns)
	}
	return client
}

func (r *real) create(body object) error {
	kind := body["kind"].(string)
	body = maps.Clone(body)
	body["apiVersion"] = apiVersions[kind]
	_, err := r.of(kind).Create(context.Background(), &unstructured.Unstructured{Object: body}, metav1.CreateOptions{})
	return err
}

func (r *real) patch(kind, name string, patch object, subresource string) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	var sub []string
	if subresource != "" {
		sub = []string{subresource}
	}
	_, err = r.of(kind).Patch(context.Background(), name, types.MergePatchType, text, metav1.PatchOptions{}, sub...)
	return err
}

// update tries again where the object has changed meanwhile.
func (r *real) update(kind, name, subresource string, change func(o object, now time.Time) object) error {
	for {
		u, err := r.of(kind).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch := change(u.Object, time.Now())
		meta, _ := patch["metadata"].(object)
		meta = maps.Clone(meta)
		if meta == nil {
			meta = object{}
		}
		meta["resourceVersion"] = u.GetResourceVersion()
		patch["metadata"] = meta
		if err := r.patch(kind, name, patch, subresource); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func (r *real) delete(kind, name string) error {
	return r.of(kind).Delete(context.Background(), name, metav1.DeleteOptions{})
}

func (r *real) second() { time.Sleep(time.Second + 100*time.Millisecond) }

func (r *real) show(t *testing.T) string {
	t.Helper()
	return r.part.show(func(kind string) (list []object) {
		found, err := r.of(kind).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(fmt.Errorf("list %s: %w", kind, err))
		}
		for _, u := range found.Items {
			if r.ours(kind, u.GetName()) {
				list = append(list, u.Object)
			}
		}
		return list
	})
}
