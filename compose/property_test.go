package compose_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/test/scenario"
)

var more = flag.Int("more", 1, "decide about so many times as many arbitrary observations")

// generators make observations, from plausible to impossible ones.
var generators = []struct {
	name  string
	cases int
	make  func(arbitrary, []*compose.Observation) *compose.Observation
}{
	{"golden case", 60, func(a arbitrary, golden []*compose.Observation) *compose.Observation { return oneOf(a, golden...) }},
	{"golden case at another time", 150, atAnotherTime},
	{"golden case of which something is not seen", 150, partlySeen},
	{"two golden cases mixed up", 300, mixed},
	{"golden case with another store", 150, withAnotherStore},
	{"job that runs", 500, func(a arbitrary, _ []*compose.Observation) *compose.Observation { return a.likely() }},
	{"anything", 700, func(a arbitrary, _ []*compose.Observation) *compose.Observation { return a.observation() }},
}

// TestDecisionsKeepThePromises decides about arbitrary observations and checks
// what must hold for every single decision. A failure names the seed; that seed
// alone shows it again.
func TestDecisionsKeepThePromises(t *testing.T) {
	golden := goldenObservations(t)
	for i, g := range generators {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for n := range g.cases * *more {
				seed := uint64(i)<<32 | uint64(n)
				if broken := check(seed, g.make(seeded(seed), golden)); broken != "" {
					t.Fatalf("seed %d: %s", seed, broken)
				}
			}
		})
	}
}

// check decides about an observation, both ways, and returns the promise that is
// broken; empty when none is.
func check(seed uint64, o *compose.Observation) (broken string) {
	for _, hook := range []struct {
		name     string
		decide   func(*compose.Observation) *compose.Decision
		deleting bool
	}{{"sync", compose.Sync, false}, {"finalize", compose.Finalize, true}} {
		if broken := checkHook(seed, o, hook.decide, hook.deleting); broken != "" {
			return hook.name + ": " + broken
		}
	}
	return ""
}

func checkHook(seed uint64, o *compose.Observation, decide func(*compose.Observation) *compose.Decision, deleting bool) (broken string) {
	defer func() {
		if p := recover(); p != nil {
			broken = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	before := written(o)
	d := decide(o)
	if !bytes.Equal(before, written(o)) {
		return "the observation was modified"
	}
	if again := decide(o); !bytes.Equal(written(d), written(again)) {
		return "the second decision differs:\n" + cmp.Diff(indented(d), indented(again))
	}
	if other := decide(seeded(seed).shuffled(o)); !bytes.Equal(written(d), written(other)) {
		return "the order of objects changes the decision:\n" + cmp.Diff(indented(d), indented(other))
	}
	for _, promise := range promises {
		if broken := promise.broken(&judged{o, d, deleting}); broken != "" {
			return promise.name + ": " + broken
		}
	}
	return settles(o, decide)
}

// settles: with nothing but the status moving, decisions come to rest. A job that
// did not would be written for ever.
func settles(o *compose.Observation, decide func(*compose.Observation) *compose.Decision) string {
	const rounds = 8
	n := *o
	var last, before []byte
	for range rounds {
		before, last = last, written(decide(&n).Status)
		if bytes.Equal(before, last) {
			return ""
		}
		// As the API server keeps it: whole seconds, nothing that is empty.
		parent := *n.Parent
		parent.Status = v1beta1.ResumableTrainingJobStatus{}
		if err := json.Unmarshal(last, &parent.Status); err != nil {
			return err.Error()
		}
		n.Parent = &parent
	}
	return "status does not come to rest:\n" + cmp.Diff(indented(json.RawMessage(before)), indented(json.RawMessage(last)))
}

// written is a value as JSON.
func written(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// indented is a value for a person to read.
func indented(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// goldenObservations are those of testdata/sync.
func goldenObservations(t *testing.T) []*compose.Observation {
	t.Helper()
	const cases = "../testdata/sync"
	files, err := filepath.Glob(cases + "/*/observed.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	var list []*compose.Observation
	for _, file := range files {
		observed, err := scenario.LoadObserved(file, cases+"/_base")
		if err != nil {
			t.Fatal(err)
		}
		request, err := observed.Request()
		if err != nil {
			t.Fatal(err)
		}
		o, err := hooks.Observe(request)
		if err != nil {
			t.Fatal(err)
		}
		o.Now, o.Observer, o.PodIntegration = *observed.Now, "rtj", true
		if o.Catalog, err = scenario.LoadCatalog(filepath.Join(filepath.Dir(file), "catalog.yaml"), cases+"/_base", compose.RunID(o.Parent)); err != nil {
			t.Fatal(err)
		}
		list = append(list, o)
	}
	return list
}

func atAnotherTime(a arbitrary, golden []*compose.Observation) *compose.Observation {
	o := *oneOf(a, golden...)
	o.Now = o.Now.Add(a.moment().Sub(noon))
	return &o
}

// partlySeen: caches fill one by one, and objects go one by one.
func partlySeen(a arbitrary, golden []*compose.Observation) *compose.Observation {
	o := *oneOf(a, golden...)
	o.Workloads, o.JobSets, o.Jobs, o.LeaderPods = part(a, o.Workloads), part(a, o.JobSets), part(a, o.Jobs), part(a, o.LeaderPods)
	o.LocalQueues, o.ClusterQueues, o.Flavors = part(a, o.LocalQueues), part(a, o.ClusterQueues), part(a, o.Flavors)
	if a.rarely(3) {
		o.Control = nil
	}
	if a.rarely(3) {
		parent := *o.Parent
		parent.Status = v1beta1.ResumableTrainingJobStatus{}
		o.Parent = &parent
	}
	return &o
}

func part[T any](a arbitrary, list []T) []T {
	var some []T
	for _, item := range list {
		if !a.rarely(3) {
			some = append(some, item)
		}
	}
	return some
}

// mixed is what a stale view looks like: each kind of object is as old as it likes.
func mixed(a arbitrary, golden []*compose.Observation) *compose.Observation {
	o, other := *oneOf(a, golden...), oneOf(a, golden...)
	for _, take := range []func(){
		func() { o.Parent = other.Parent }, func() { o.Workloads = other.Workloads }, func() { o.JobSets = other.JobSets },
		func() { o.Jobs = other.Jobs }, func() { o.Control = other.Control }, func() { o.Catalog = other.Catalog }, func() { o.Now = other.Now },
	} {
		if a.rarely(3) {
			take()
		}
	}
	return &o
}

func withAnotherStore(a arbitrary, golden []*compose.Observation) *compose.Observation {
	o := *oneOf(a, golden...)
	o.Catalog = a.catalog()
	if o.Catalog != nil && !o.Catalog.ListedAt.IsZero() && a.rarely(2) {
		o.Catalog.ListedAt = o.Now
	}
	return &o
}
