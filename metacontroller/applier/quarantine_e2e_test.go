//go:build e2e

package applier_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/webhook"
)

func TestStatement38PoisonParentDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		switch {
		case strings.Contains(string(r.Parent), `"name":"panics"`):
			var m map[string]int
			m["x"] = 1
		case strings.Contains(string(r.Parent), `"name":"fails"`):
			return nil, errors.New("always")
		case strings.Contains(string(r.Parent), `"name":"rejected"`):
			return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: bad}, spec: {color: 7}}`), nil
		}
		return answer(`{phase: Fine}`), nil
	})
	for _, name := range []string{"panics", "fails", "rejected"} {
		w.parent(name, nil)
	}
	for i := range 50 {
		w.parent(fmt.Sprintf("p%d", i), nil)
	}
	w.eventually("the others are synced", func() bool {
		list, err := server.client.Resource(trains).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		fine := 0
		for _, p := range list.Items {
			if field(&p, "status", "phase") == "Fine" {
				fine++
			}
		}
		return fine == 50
	})
	if !strings.Contains(w.logs.String(), "assignment to entry in nil map") {
		t.Error("the panic is not logged")
	}
}

// Parents whose hook hangs take, from the second time on, a quarter of the workers
// at most; the rest is there for the others.
func TestStatement38HangingParentsLeaveWorkersToOthers(t *testing.T) {
	w := newWorld(t)
	const poisoned = 8
	var again gauge
	var failures atomic.Int64
	var hung sync.Map
	hooks := &hanger{world: w, hang: func(ctx context.Context, name string) {
		if _, before := hung.LoadOrStore(name, true); before {
			again.enter()
			defer again.leave()
		}
		<-ctx.Done()
		failures.Add(1)
	}}
	w.option = func(o *applier.Options) { o.Workers, o.Hooks = 4, hooks }
	w.run(always(answer(`{phase: Fine}`)), func(c *applier.CompositeController) {
		c.Spec.Hooks.Sync.Webhook = &applier.Webhook{Timeout: &metav1.Duration{Duration: 600 * time.Millisecond}}
	})
	for i := range poisoned {
		w.parent(fmt.Sprintf("hangs-%d", i), nil)
	}
	w.eventually("each has failed, some again", func() bool { return failures.Load() >= poisoned+4 })
	for i := range 20 {
		w.parent(fmt.Sprintf("p%d", i), nil)
	}
	w.eventually("the others are synced", func() bool { return w.metric("rtj_applier_syncs_total", "result", "success") >= 20 })
	w.eventually("hanging parents are tried again", func() bool { return failures.Load() >= poisoned+8 })
	if most := again.most.Load(); most != 1 {
		t.Errorf("%d of 4 workers hung at once, want 1", most)
	}
}

// hanger is hooks that hang for some parents.
type hanger struct {
	*world
	hang func(ctx context.Context, name string)
}

func (h *hanger) Sync(ctx context.Context, r *contract.SyncRequest) (*contract.SyncResponse, error) {
	if name := parentName(r); strings.HasPrefix(name, "hangs") {
		h.hang(ctx, name)
		return nil, ctx.Err()
	}
	return h.world.Sync(ctx, r)
}

func TestStatement38FailuresAreBackedOffAndEventsDoNotHurryThem(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) { return nil, errors.New("always") })
	w.parent("p", nil)
	w.eventually("it has failed five times", func() bool { return w.syncs.Load() >= 5 })
	n := w.syncs.Load()
	for range 200 {
		w.applier.Enqueue(w.namespace, "p")
	}
	w.eventually("the fifth failure is logged", func() bool { return strings.Contains(w.logs.String(), "failures=5") })
	if got := w.syncs.Load() - n; got > 1 {
		t.Errorf("%d syncs for 200 events", got)
	}
	var last time.Duration
	for _, m := range regexp.MustCompile(`retryIn=(\S+)`).FindAllStringSubmatch(w.logs.String(), 5) {
		delay, err := time.ParseDuration(m[1])
		if err != nil || delay < last+last/2 {
			t.Errorf("a delay of %s after one of %s (%v)", m[1], last, err)
		}
		last = delay
	}
}

// Other hooks decide otherwise: all parents are synced again and asked for their
// related objects, though nothing happens in the cluster.
func TestStatement38OtherHooksSyncEveryParent(t *testing.T) {
	w := newWorld(t)
	w.customize = func(*contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{}, nil
	}
	hooks := &changing{world: w}
	w.option = func(o *applier.Options) { o.Hooks = hooks }
	w.run(always(answer(`{phase: One}`)), withCustomize)
	phases := func(phase string) (n int) {
		list, err := server.client.Resource(trains).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if field(&p, "status", "phase") == phase {
				n++
			}
		}
		return n
	}
	for i := range 5 {
		w.parent(fmt.Sprintf("p%d", i), nil)
	}
	w.eventually("all are synced", func() bool { return phases("One") == 5 })
	asked := w.customs.Load()
	w.onSync(always(answer(`{phase: Two}`)))
	hooks.change()
	w.eventually("all are synced by the new hooks", func() bool { return phases("Two") == 5 })
	if got := w.customs.Load() - asked; got != 5 {
		t.Errorf("customize was asked %d times for 5 parents", got)
	}
}

// changing is hooks that tell when they have changed.
type changing struct {
	*world
	change func()
}

func (c *changing) OnChange(f func()) { c.change = f }

func TestStatement38OtherHooksOverHTTPSyncEveryParent(t *testing.T) {
	x := newWire(t)
	deploy := func(release, phase string) {
		x.answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(webhook.IdentityHeader, release)
			if r.Method == http.MethodPost {
				saying(`{status: {phase: `+phase+`}}`)(w, r)
			}
		})
	}
	deploy("v1", "One")
	x.start()
	for _, name := range []string{"p", "q"} {
		x.parent(name, nil)
		x.eventually(name+" is synced", func() bool { return field(x.get(trains, name), "status", "phase") == "One" })
	}
	deploy("v2", "Two")
	for _, name := range []string{"p", "q"} {
		x.eventually(name+" is synced by the new hooks", func() bool { return field(x.get(trains, name), "status", "phase") == "Two" })
	}
}
