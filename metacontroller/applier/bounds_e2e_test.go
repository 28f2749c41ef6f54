//go:build e2e

package applier_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

func TestStatement35TooLargeAnswersAreRefused(t *testing.T) {
	huge := strings.Repeat("x", 100<<20)
	for name, c := range map[string]struct {
		limits applier.Limits
		answer *contract.SyncResponse
		want   string
	}{
		"children": {applier.Limits{Children: 3}, answer(`{phase: Bad}`, manyConfigMaps(4)...), "4 children, and the limit is 3 (Children)"},
		"bytes":    {applier.Limits{ResponseBytes: 1000}, answer(`{phase: Bad, message: "` + strings.Repeat("y", 1000) + `"}`), "bytes long, and the limit is 1000 (ResponseBytes)"},
		"100 MB, by default": {applier.Limits{}, answer(`{phase: Bad}`, configMapA, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"huge"},"data":{"x":"`+huge+`"}}`),
			"bytes long, and the limit is 33554432 (ResponseBytes)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.option = func(o *applier.Options) { o.Limits = c.limits }
			w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
				if parentName(r) == "large" {
					return c.answer, nil
				}
				return answer(`{phase: Fine}`), nil
			})
			w.parent("large", nil)
			w.eventually("it is refused by object and limit", func() bool {
				log := w.logs.String()
				return strings.Contains(log, "Train.exp.dev/v1 "+w.namespace+"/large: ") && strings.Contains(log, c.want)
			})
			w.parent("other", nil)
			w.eventually("another parent is synced", func() bool { return field(w.get(trains, "other"), "status", "phase") == "Fine" })
			list, err := server.client.Resource(configMaps).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "controller-uid"})
			if err != nil || len(list.Items) > 0 || field(w.get(trains, "large"), "status", "phase") != "" {
				t.Errorf("something of it was applied: %d children, %v", len(list.Items), err)
			}
		})
	}
}

// gauge counts what is under way, and the most that ever was.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) enter() {
	n := g.now.Add(1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
}

func (g *gauge) leave() { g.now.Add(-1) }

// counting has the requests of a method take a while, and counts those under way.
func (w *world) counting(method string) *gauge {
	g := &gauge{}
	w.requests.through(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if r.Method == method {
			g.enter()
			defer g.leave()
			time.Sleep(20 * time.Millisecond)
		}
		return send()
	})
	return g
}

func TestStatement35ConcurrentWritesOfOneParent(t *testing.T) {
	w := newWorld(t)
	w.option = func(o *applier.Options) { o.Limits.ParentWrites = 3 }
	posts := w.counting(http.MethodPost)
	w.run(always(answer("", manyConfigMaps(30)...)))
	w.parent("p", nil)
	w.eventually("all exist", func() bool { return w.get(configMaps, "c029") != nil })
	if most := posts.most.Load(); most != 3 {
		t.Errorf("%d creations at once, want 3", most)
	}
}

func TestStatement35ConcurrentWritesOfAllParents(t *testing.T) {
	limit := applier.NewWriteLimit(2)
	w := newWorld(t)
	w.option = func(o *applier.Options) { o.Writes = limit }
	posts := w.counting(http.MethodPost)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		response := answer("")
		for i := range 5 {
			response.Children = append(response.Children, rawYAML(configMap(fmt.Sprintf("%s-%d", parentName(r), i))))
		}
		return response, nil
	})
	for i := range 6 {
		w.parent(fmt.Sprintf("p%d", i), nil)
	}
	w.eventually("all exist", func() bool {
		for i := range 6 {
			if w.get(configMaps, fmt.Sprintf("p%d-4", i)) == nil {
				return false
			}
		}
		return true
	})
	if most := posts.most.Load(); most != 2 {
		t.Errorf("%d creations at once, want 2", most)
	}
}

// With one worker, a parent with many children is written in turns, and the
// others have theirs between them.
func TestStatement35ManyChildrenDoNotStarveOthers(t *testing.T) {
	w := newWorld(t)
	w.option = func(o *applier.Options) { o.Workers, o.Limits.TurnWrites = 1, 10 }
	children := manyConfigMaps(100)
	written := func() int {
		list, err := server.client.Resource(configMaps).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "controller-uid"})
		if err != nil {
			t.Error(err)
			return 0
		}
		return len(list.Items)
	}
	others := make(chan int, 100)
	for i := range 5 {
		w.parent(fmt.Sprintf("p%d", i), nil)
	}
	w.parent("a", nil) // the first in the order of a list
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		if parentName(r) == "a" {
			return answer("", children...), nil
		}
		others <- written()
		return answer(""), nil
	})
	w.eventually("all children exist", func() bool { return written() == 100 })
	for range 5 {
		if n := <-others; n == 100 {
			t.Error("a parent was synced only when the one with many children was done")
		}
	}
	if w.metric("rtj_applier_syncs_total", "result", "unfinished") < 9 {
		t.Errorf("100 children in turns of 10 took %v unfinished syncs", w.metric("rtj_applier_syncs_total", "result", "unfinished"))
	}
}

// Children that fail use up no turn, or enough of them would keep the rest from
// ever being written.
func TestStatement35FailingChildrenDoNotUseUpTheTurn(t *testing.T) {
	w := newWorld(t)
	w.option = func(o *applier.Options) { o.Limits.TurnWrites = 5 }
	var children []string
	for i := range 20 {
		children = append(children, part(fmt.Sprintf("bad%d", i), "7"))
	}
	w.run(always(answer("", append(children, manyConfigMaps(12)...)...)))
	w.parent("p", nil)
	w.eventually("the good ones exist", func() bool { return w.get(configMaps, "c011") != nil })
}

// A parent that is to be synced all the time gets no more syncs than the others.
func TestStatement35HotParentDoesNotStarveOthers(t *testing.T) {
	w := newWorld(t)
	w.option = func(o *applier.Options) { o.Workers = 1 }
	const others = 20
	for i := range others {
		w.parent(fmt.Sprintf("p%02d", i), nil)
	}
	w.parent("a", nil)
	var hot, done atomic.Int64
	hotWhenDone := make(chan int64, 1)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		if parentName(r) == "a" {
			hot.Add(1)
			w.applier.Enqueue(w.namespace, "a")
		} else if done.Add(1) == others {
			hotWhenDone <- hot.Load()
		}
		return answer(""), nil
	})
	if n := <-hotWhenDone; n > others {
		t.Errorf("%d syncs of the hot parent before each of the %d others had one", n, others)
	}
	w.stop()
}

func TestStatement35QueueDepth(t *testing.T) {
	w := newWorld(t)
	w.option = func(o *applier.Options) { o.Workers = 1 }
	for i := range 5 {
		w.parent(fmt.Sprintf("p%d", i), nil)
	}
	release := make(chan struct{})
	w.run(func(*contract.SyncRequest) (*contract.SyncResponse, error) {
		<-release
		return answer(""), nil
	})
	var once sync.Once
	free := func() { once.Do(func() { close(release) }) }
	t.Cleanup(free) // before the applier is stopped
	w.eventually("four wait for the one that is synced", func() bool { return w.metric("rtj_applier_queue_depth") >= 4 })
	free()
	w.eventually("nobody waits", func() bool { return w.metric("rtj_applier_queue_depth") == 0 })
}
