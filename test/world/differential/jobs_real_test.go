//go:build e2e

package differential

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"rtj.dev/rtj/test/cluster"
)

const (
	// podPatience is how long the cluster may take to come to rest.
	podPatience = 60 * time.Second
	// podCalm is how long nothing changes at rest: the Job controller waits for a second
	// before it looks at a pod that changed.
	podCalm = 3 * time.Second
)

// orderedWorker does what is written to a file that has its host's name.
const orderedWorker = `
n=$(uname -n)
trap 'c=$(cat /orders/term); [ "$c" = -1 ] || exit $c' TERM
while :; do
	if [ -f /orders/$n ]; then c=$(cat /orders/$n); rm -f /orders/$n; exit $c; fi
	sleep 0.05
done`

var podResources = map[string]schema.GroupVersionResource{
	"JobSet": {Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	"Job":    {Group: "batch", Version: "v1", Resource: "jobs"},
	"Pod":    {Version: "v1", Resource: "pods"},
}

// realPods is a namespace of the local cluster. What a watch shows is noted.
type realPods struct {
	t                 *testing.T
	c                 *realCluster
	kube              kubernetes.Interface
	namespace, orders string
	// pinned has all pods run on the first node.
	pinned bool

	mu      sync.Mutex
	picture picture // by full names
	// seen is what each object showed since the beginning of an podAct, in order.
	seen    map[string][]string
	changed time.Time
}

func newRealPods(t *testing.T, c *realCluster, term int) *realPods {
	r := &realPods{t: t, c: c, orders: t.TempDir(), picture: picture{}, seen: map[string][]string{}}
	var err error
	r.kube, err = kubernetes.NewForConfig(c.RESTConfig)
	r.must(err)
	ns, err := r.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pods-"}}, metav1.CreateOptions{})
	r.must(err)
	r.namespace = ns.Name
	r.order("term", term)
	ctx, cancel := context.WithCancel(context.Background())
	var watches sync.WaitGroup
	for kind, resource := range podResources {
		w, err := r.c.client.Resource(resource).Namespace(r.namespace).Watch(ctx, metav1.ListOptions{})
		r.must(err)
		watches.Go(func() {
			for e := range w.ResultChan() {
				if u, ok := e.Object.(*unstructured.Unstructured); ok && u.GetKind() == kind {
					r.note(u.Object, e.Type == watch.Deleted)
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		watches.Wait()
		none := int64(0)
		for _, p := range r.pods() {
			_ = r.kube.CoreV1().Pods(r.namespace).Delete(context.Background(), p, metav1.DeleteOptions{GracePeriodSeconds: &none})
		}
		if err := r.kube.CoreV1().Namespaces().Delete(context.Background(), r.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *realPods) pods() (names []string) {
	list, err := r.kube.CoreV1().Pods(r.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

func (r *realPods) note(o object, deleted bool) {
	name, state := podSeen(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = time.Now()
	id := fmt.Sprint(o["kind"], " ", o["metadata"].(object)["name"])
	r.picture[id] = state
	if deleted {
		delete(r.picture, id)
		state = gone
	}
	if list := r.seen[name]; len(list) == 0 || list[len(list)-1] != state {
		r.seen[name] = append(list, state)
	}
}

// begin begins an podAct.
func (r *realPods) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = map[string][]string{}
	for id, state := range r.picture {
		r.seen[randomEnd.ReplaceAllString(id, "$1")] = []string{state}
	}
	r.changed = time.Now()
}

// rest waits until the cluster is at rest, and compares the podAct with the model's.
func (r *realPods) rest(want *podAct) {
	r.t.Helper()
	for deadline := time.Now().Add(podPatience); ; time.Sleep(50 * time.Millisecond) {
		r.mu.Lock()
		quiet, is := time.Since(r.changed) > podCalm, r.picture.String()
		r.mu.Unlock()
		if quiet && want.rests[is] {
			break
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: the cluster comes to rest in\n%s\nthe model in\n%s", want.name, is, strings.Join(slices.Sorted(maps.Keys(want.rests)), "\nor in\n"))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.seen)) {
		before := ""
		for _, state := range r.seen[name] {
			switch {
			case !want.states[name][state] && before != "":
				r.t.Errorf("%s: %s is seen as\n\t%s\nafter\n\t%s\nIn the model it is one of\n\t%s", want.name, name, state, before, strings.Join(slices.Sorted(maps.Keys(want.states[name])), "\n\t"))
			case before != "" && !want.order[[3]string{name, before, state}]:
				r.t.Errorf("%s: %s is seen as\n\t%s\nand then as\n\t%s\nwhich is not so in the model", want.name, name, before, state)
			}
			before = state
		}
	}
}

func (r *realPods) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *realPods) order(name string, code int) {
	r.t.Helper()
	// Whoever reads it finds it whole.
	file := filepath.Join(r.orders, name)
	r.must(os.WriteFile(file+".new", []byte(strconv.Itoa(code)), 0o644))
	r.must(os.Rename(file+".new", file))
}

func (r *realPods) create(o object) {
	r.t.Helper()
	o = runtime.DeepCopyJSON(o)
	replicated := o["spec"].(object)["replicatedJobs"].([]any)[0].(object)
	pod := replicated["template"].(object)["spec"].(object)["template"].(object)["spec"].(object)
	pod["volumes"] = []any{object{"name": "orders", "hostPath": object{"path": r.orders}}}
	if r.pinned {
		pod["nodeSelector"] = object{corev1.LabelHostname: cluster.ProcessNodeName(0)}
	}
	_, err := r.c.client.Resource(podResources["JobSet"]).Namespace(r.namespace).Create(r.t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
	r.must(err)
}

func (r *realPods) suspend(is bool) {
	r.t.Helper()
	body := fmt.Appendf(nil, `{"spec":{"suspend":%v}}`, is)
	_, err := r.c.client.Resource(podResources["JobSet"]).Namespace(r.namespace).Patch(r.t.Context(), jobSetName, types.MergePatchType, body, metav1.PatchOptions{})
	r.must(err)
}

func (r *realPods) exit(pod string, code int) { r.order(pod, code) }

// pod is the full name of one that is not being deleted.
func (r *realPods) pod(name string) string {
	r.t.Helper()
	list, err := r.kube.CoreV1().Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	r.must(err)
	for _, p := range list.Items {
		if strings.HasPrefix(p.Name, name+"-") && p.DeletionTimestamp == nil {
			return p.Name
		}
	}
	r.t.Fatalf("there is no pod %s", name)
	return ""
}

func (r *realPods) deletePod(pod string, force bool) {
	r.t.Helper()
	var options metav1.DeleteOptions
	if force {
		options.GracePeriodSeconds = new(int64)
	}
	r.must(r.kube.CoreV1().Pods(r.namespace).Delete(r.t.Context(), r.pod(pod), options))
}

func (r *realPods) evictPod(pod string) {
	r.t.Helper()
	r.must(r.kube.PolicyV1().Evictions(r.namespace).Evict(r.t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: r.pod(pod), Namespace: r.namespace}}))
}

func (r *realPods) delete(kind, name string, foreground bool) {
	r.t.Helper()
	how := metav1.DeletePropagationBackground
	if foreground {
		how = metav1.DeletePropagationForeground
	}
	r.must(r.c.client.Resource(podResources[kind]).Namespace(r.namespace).Delete(r.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &how}))
}

func (r *realPods) loseNode()   { r.signal(syscall.SIGSTOP) }
func (r *realPods) returnNode() { r.signal(syscall.SIGCONT) }

func (r *realPods) signal(s syscall.Signal) {
	r.t.Helper()
	r.must(r.c.SignalComponent(cluster.ProcessNodeName(0), s))
}
