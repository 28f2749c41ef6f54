package hooks_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/arbitrary"
	"rtj.dev/rtj/test/lifecycle"
)

var more = flag.Int("more", 1, "try so many times as many arbitrary moments")

// moment is one call of the hook: what it is asked, and what the edge knows besides.
type moment struct {
	name           string
	request        *contract.SyncRequest
	now            time.Time
	observer       string
	podIntegration bool
	catalog        *checkpoint.Snapshot
	launch         *compose.LaunchProbe
	// script is the file of a script's moment.
	script string
}

// answer decides about the moment as it is.
func (m *moment) answer() (*compose.Decision, *contract.SyncResponse, error) {
	o, err := hooks.Observe(m.request)
	if err != nil {
		return nil, nil, err
	}
	o.Now, o.Observer, o.PodIntegration, o.Catalog, o.Launch = m.now, m.observer, m.podIntegration, m.catalog, m.launch
	decide := compose.Sync
	if m.request.Finalizing {
		decide = compose.Finalize
	}
	d := decide(o)
	response, err := hooks.Respond(d, d.ResyncAfter)
	return d, response, err
}

func (m *moment) mustAnswer(t *testing.T) (*compose.Decision, *contract.SyncResponse) {
	t.Helper()
	d, response, err := m.answer()
	if err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
	return d, response
}

// read is the same moment with the readings of a store that answers at once and
// holds what it held, for as long as the answer asks for one.
func (m *moment) read(t *testing.T) *moment {
	t.Helper()
	for range 3 {
		d, _ := m.mustAnswer(t)
		if d.Catalog.NotBefore.IsZero() {
			return m
		}
		m = m.readAgain()
	}
	t.Fatalf("%s: a reading is asked for that was made", m.name)
	return nil
}

func (m *moment) readAgain() *moment {
	n := *m
	snapshot := checkpoint.Snapshot{}
	if m.catalog != nil {
		snapshot = *m.catalog
	}
	snapshot.ListedAt = m.now
	n.catalog = &snapshot
	return &n
}

// with is the same moment with another request.
func (m *moment) with(r *contract.SyncRequest) *moment {
	n := *m
	n.request = r
	return &n
}

// eachMoment runs f over the golden cases, and one in so many of the syncs of the
// lifecycle scripts and of arbitrary observations. The number that f gets differs from
// moment to moment and is always the same.
func eachMoment(t *testing.T, oneIn int, f func(*testing.T, uint64, *moment)) {
	t.Run("golden cases", func(t *testing.T) {
		t.Parallel()
		for i, m := range goldenMoments(t) {
			f(t, uint64(i), m)
		}
	})
	t.Run("lifecycle scripts", func(t *testing.T) {
		t.Parallel()
		all := scriptMoments(t)
		for i := 0; i < len(all); i += max(oneIn/4 / *more, 1) {
			f(t, uint64(i), all[i])
		}
	})
	golden, err := arbitrary.Golden(cases)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range arbitrary.Generators {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			for n := range max(g.Cases**more/oneIn, 1) {
				seed := uint64(i)<<32 | uint64(n)
				for _, finalizing := range []bool{false, true} {
					m, err := momentOf(fmt.Sprintf("seed %d, finalizing %t", seed, finalizing), g.Make(arbitrary.New(seed), golden), finalizing)
					if err != nil {
						t.Fatal(err)
					}
					if f(t, seed, m); t.Failed() {
						return
					}
				}
			}
		})
	}
}

// momentOf is the moment at which something was observed.
func momentOf(name string, o *compose.Observation, finalizing bool) (*moment, error) {
	request, err := arbitrary.Request(o, finalizing)
	if err != nil {
		return nil, err
	}
	return &moment{
		name: name, request: request, now: o.Now, observer: o.Observer,
		podIntegration: o.PodIntegration, catalog: o.Catalog, launch: o.Launch,
	}, nil
}

func goldenMoments(t *testing.T) []*moment {
	t.Helper()
	files, err := filepath.Glob(cases + "/*/observed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list []*moment
	for _, file := range files {
		o, finalizing, err := arbitrary.GoldenCase(filepath.Dir(file), bases)
		if err != nil {
			t.Fatal(err)
		}
		m, err := momentOf(filepath.Base(filepath.Dir(file)), o, finalizing)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// scriptMoments are every sync of every script, in their order. They are not changed.
func scriptMoments(t *testing.T) []*moment {
	t.Helper()
	list, err := readScripts()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var readScripts = sync.OnceValues(func() (list []*moment, err error) {
	scripts, err := filepath.Glob("../testdata/lifecycle/*.txt")
	if err != nil || len(scripts) == 0 {
		return nil, fmt.Errorf("no scripts: %v", err)
	}
	for _, file := range scripts {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		moments, err := lifecycle.Moments(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i, m := range moments {
			list = append(list, scriptMoment(file, i, m))
		}
	}
	return list, nil
})

func scriptMoment(file string, n int, m *lifecycle.Moment) *moment {
	return &moment{
		name: fmt.Sprintf("%s, sync %d", strings.TrimSuffix(filepath.Base(file), ".txt"), n), request: m.Request, now: m.Now,
		observer: "rtj", podIntegration: true, catalog: m.Catalog, script: file,
	}
}

type object = map[string]any

// parsed is JSON as values; whole numbers are int64.
func parsed(t *testing.T, raw []byte) (o object) {
	t.Helper()
	if err := utiljson.Unmarshal(raw, &o); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return o
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// eachObject calls f with every object of a request but the parent, and replaces it
// by what f returns; without an error.
func eachObject(r *contract.SyncRequest, f func(kind string, raw json.RawMessage) json.RawMessage) *contract.SyncRequest {
	n := *r
	n.Children, n.Related = contract.ObjectMap{}, contract.ObjectMap{}
	for _, m := range []struct{ from, into contract.ObjectMap }{{r.Children, n.Children}, {r.Related, n.Related}} {
		for kind, objects := range m.from {
			for place, raw := range objects {
				m.into.Set(kind, place, f(kind, raw))
			}
		}
	}
	return &n
}
