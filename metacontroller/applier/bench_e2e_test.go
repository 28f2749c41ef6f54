//go:build e2e

package applier_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/test/figures"
)

// runner is who runs the hooks of a benchmark: this applier, in the process of
// the benchmark, or Metacontroller.
type runner interface {
	// start runs a CompositeController until the benchmark ends.
	start(w *world, c *applier.CompositeController)
	// cpu is how much CPU time the runner has used, hooks included for the applier.
	cpu() time.Duration
}

// contender is a runner and what it adds to the names of figures.
type contender struct {
	runner
	who string
}

// contenders are the applier, with default settings, and Metacontroller, where a
// binary is given.
func contenders() []contender {
	list := []contender{{embedded{}, ""}}
	binary := os.Getenv("E2E_METACONTROLLER")
	if binary == "" {
		fmt.Println("skipped: Metacontroller's part; E2E_METACONTROLLER=PATH names a binary of version 4.17")
		return list
	}
	return append(list, contender{&metacontroller{binary: binary}, ", Metacontroller"})
}

type embedded struct{}

func (embedded) start(w *world, c *applier.CompositeController) {
	w.option = func(o *applier.Options) {
		config := rest.CopyConfig(server.cluster.RTJConfig)
		config.QPS, config.Burst = 0, 0 // the default
		*o = applier.Options{Config: config, Controller: c, Hooks: w, Logger: o.Logger}
	}
	w.run(w.sync)
}

func (embedded) cpu() time.Duration { return cpuOf(os.Getpid()) }

// How long it takes, from the first call of the hook, until each of 500 parents has
// its ConfigMap and its status, and what it costs. The parents are there before the
// runner starts. Then the same with 10,000 ConfigMaps around that nobody owns. The
// runners take turns, three each, and the quickest counts: what else the machine
// does only makes it longer.
func BenchmarkConvergence(b *testing.B) {
	const parents, turns = 500, 3
	mayDoEverything(b)
	for _, unowned := range []int{0, 10_000} {
		if unowned > 0 {
			crowd(b, unowned)
		}
		input := fmt.Sprintf("one ConfigMap each, %d unowned ConfigMaps", unowned)
		list := contenders()
		best := make([]cost, len(list))
		for turn := range turns {
			for i, r := range list {
				b.Run(fmt.Sprintf("%dparents/%dunowned/%d%s", parents, unowned, turn, r.who), func(b *testing.B) {
					for b.Loop() {
						if c := converge(b, r, parents); turn == 0 || c.took < best[i].took {
							best[i] = c
						}
					}
				})
			}
		}
		for i, r := range list {
			name := fmt.Sprintf("convergence of %d parents%s", parents, r.who)
			figures.Print(name, input, best[i].took.Seconds(), "s")
			figures.Print(name+", CPU", input, best[i].cpu.Seconds(), "s")
			figures.Print(name+", writes", input, float64(best[i].writes), "requests")
			figures.Print(name+", live reads", input, float64(best[i].reads), "requests")
		}
	}
}

// cost is what a runner needed.
type cost struct {
	took, cpu     time.Duration
	writes, reads int
}

func converge(b *testing.B, r contender, parents int) cost {
	w := newWorld(b)
	inParallel(parents, func(i int) { w.parent(fmt.Sprintf("p%d", i), nil) })
	var first sync.Once
	var begun time.Time
	var before time.Duration
	w.onSync(func(request *contract.SyncRequest) (*contract.SyncResponse, error) {
		first.Do(func() { begun, before = time.Now(), r.cpu() })
		return oneConfigMap(request)
	})
	r.start(w, controller(b, w.namespace))
	w.allRunning(parents)
	c := cost{took: time.Since(begun), cpu: r.cpu() - before}
	c.writes, c.reads = w.audited(begun, time.Now())
	return c
}

// What ten resyncs of 50 parents with a child cost when nothing changes.
func BenchmarkIdle(b *testing.B) {
	const parents, resyncs = 50, 10
	mayDoEverything(b)
	for _, r := range contenders() {
		b.Run(fmt.Sprintf("%dresyncs%s", resyncs, r.who), func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b)
				w.onSync(oneConfigMap)
				c := controller(b, w.namespace)
				second := int32(1)
				c.Spec.ResyncPeriodSeconds = &second
				r.start(w, c)
				inParallel(parents, func(i int) { w.parent(fmt.Sprintf("p%d", i), nil) })
				w.allRunning(parents)
				time.Sleep(2 * time.Second) // the last events of its own writes
				begun, n := time.Now(), w.syncs.Load()
				w.eventually("there were ten resyncs", func() bool { return w.syncs.Load() >= n+parents*resyncs })
				writes, reads := w.audited(begun, time.Now())
				input := fmt.Sprintf("%d parents with a ConfigMap, %d resyncs", parents, resyncs)
				figures.Print("idle, writes"+r.who, input, float64(writes), "requests")
				figures.Print("idle, live reads"+r.who, input, float64(reads), "requests")
			}
		})
	}
}

func oneConfigMap(r *contract.SyncRequest) (*contract.SyncResponse, error) {
	return answer(`{phase: Running}`, configMap("of-"+parentName(r))), nil
}

// allRunning waits until so many parents have the status of [oneConfigMap].
func (w *world) allRunning(n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	all := true
	events, err := server.client.Resource(trains).Namespace(w.namespace).Watch(ctx, metav1.ListOptions{SendInitialEvents: &all, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer events.Stop()
	running := map[string]bool{}
	for event := range events.ResultChan() {
		if o, ok := event.Object.(*unstructured.Unstructured); ok && field(o, "status", "phase") == "Running" {
			running[o.GetName()] = true
		}
		if len(running) == n {
			return
		}
	}
	w.t.Fatalf("%d of %d parents have their status", len(running), n)
}

func inParallel(n int, f func(int)) {
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// mayDoEverything lets user "rtj" do what the runners need. That user's requests,
// reads included, are in the audit log.
func mayDoEverything(b *testing.B) {
	b.Helper()
	client, err := kubernetes.NewForConfig(server.config)
	if err != nil {
		b.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "benchmark-of-runners"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "rtj"}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(b.Context(), binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
}
