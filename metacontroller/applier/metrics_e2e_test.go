//go:build e2e

package applier_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

func TestStatement40Metrics(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		if parentName(r) == "fails" {
			return nil, errors.New("always")
		}
		return answer(`{phase: Fine}`, configMapA, part("bad", "7")), nil
	})
	w.parent("p", nil)
	w.parent("fails", nil)
	w.eventually("the status is written", func() bool { return field(w.get(trains, "p"), "status", "phase") == "Fine" })
	w.quiet()
	w.applier.Enqueue(w.namespace, "p")
	more := func(least float64, name string, labels ...string) {
		t.Helper()
		w.eventually(fmt.Sprintf("%s%v is at least %v", name, labels, least), func() bool { return w.metric(name, labels...) >= least })
	}
	more(2, "rtj_applier_hook_errors_total", "hook", "sync")
	more(2, "rtj_applier_syncs_total", "result", "error")
	more(1, "rtj_applier_unchanged_children_total", "kind", "ConfigMap.v1")
	more(2, "rtj_applier_sync_duration_seconds")
	more(2, "rtj_applier_hook_duration_seconds", "hook", "sync")
	more(1, "rtj_applier_writes_total", "kind", "Part.exp.dev/v1", "verb", "create", "result", "invalid")
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "rtj_applier_writes_total", []string{"kind", "ConfigMap.v1", "verb", "create", "result", "ok"}},
		{1, "rtj_applier_writes_total", []string{"kind", "Train.exp.dev/v1", "verb", "status", "result", "ok"}},
		{0, "rtj_applier_live_reads_total", nil},
	} {
		if got := w.metric(c.name, c.labels...); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	const scope = "configmaps.v1 with labels controller-uid"
	objects, bytes := w.metric("rtj_applier_cache_objects", "scope", scope), w.metric("rtj_applier_cache_bytes", "scope", scope)
	if objects < 1 || bytes < 100*objects {
		t.Errorf("%v cached ConfigMaps of %v bytes", objects, bytes)
	}
}

func TestStatement40ConflictsAreCounted(t *testing.T) {
	w := newWorld(t).run(always(answer("", part("a", "red"))))
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(parts, "a") != nil })
	w.quiet()
	w.onSync(always(answer("", part("a", "blue"))))
	raced := w.beforeFirst(http.MethodPatch, "/parts/a", func() { w.patch(parts, "a", `{"spec":{"note":"raced"}}`) })
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("the child is blue", func() bool { return field(w.get(parts, "a"), "spec", "color") == "blue" })
	w.eventually("the conflict is counted", func() bool {
		return w.metric("rtj_applier_writes_total", "kind", "Part.exp.dev/v1", "result", "conflict") == 1
	})
	if !raced.Load() || w.metric("rtj_applier_syncs_total", "result", "lost-race") < 1 {
		t.Error("no lost race is counted")
	}
}

func TestStatement40ReadyMeansThatTheCachesAreComplete(t *testing.T) {
	w := newWorld(t)
	w.parent("p", nil)
	release := make(chan struct{})
	w.requests.through(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/configmaps") && r.Method == http.MethodGet {
			select {
			case <-release:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return send()
	})
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		w.run(always(answer("", configMapA)))
	}()
	w.eventually("the parents are held", func() bool {
		return w.started() != nil && w.metric("rtj_applier_cache_objects", "scope", "trains.exp.dev/v1") > 0
	})
	time.Sleep(100 * time.Millisecond)
	if w.started().Ready() || w.syncs.Load() > 0 {
		t.Error("ready, or synced, without the children")
	}
	close(release)
	<-begun
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	w.stop()
	if w.started().Ready() {
		t.Error("ready after the end")
	}
}

func (w *world) started() *applier.Applier {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.applier
}
