package arbitrary

import (
	"fmt"
	"path/filepath"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/test/scenario"
)

// Generators make observations, from plausible to impossible ones.
var Generators = []struct {
	Name string
	// Cases is how many of each are tried, unless more are asked for.
	Cases int
	Make  func(Source, []*compose.Observation) *compose.Observation
}{
	{"golden case", 60, func(a Source, golden []*compose.Observation) *compose.Observation { return OneOf(a, golden...) }},
	{"golden case at another time", 150, atAnotherTime},
	{"golden case of which something is not seen", 150, partlySeen},
	{"two golden cases mixed up", 300, mixed},
	{"golden case with another store", 150, withAnotherStore},
	{"job that runs", 500, func(a Source, _ []*compose.Observation) *compose.Observation { return a.Likely() }},
	{"anything", 700, func(a Source, _ []*compose.Observation) *compose.Observation { return a.Observation() }},
}

// Golden are the observations of the golden cases in a folder.
func Golden(cases string) ([]*compose.Observation, error) {
	files, err := filepath.Glob(cases + "/*/observed.yaml")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no golden cases in %s: %v", cases, err)
	}
	var list []*compose.Observation
	for _, file := range files {
		o, _, err := GoldenCase(filepath.Dir(file), cases+"/_base")
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// GoldenCase is what a golden case observes, and whether it is of the finalize hook.
func GoldenCase(folder, bases string) (o *compose.Observation, finalizing bool, err error) {
	observed, err := scenario.LoadObserved(filepath.Join(folder, "observed.yaml"), bases)
	if err != nil {
		return nil, false, err
	}
	request, err := observed.Request()
	if err != nil {
		return nil, false, err
	}
	catalog, err := scenario.LoadCatalog(filepath.Join(folder, "catalog.yaml"), bases, scenario.RunID(request))
	if err != nil {
		return nil, false, err
	}
	o, err = observed.Observation(request, catalog)
	return o, observed.Finalizing, err
}

func atAnotherTime(a Source, golden []*compose.Observation) *compose.Observation {
	o := *OneOf(a, golden...)
	o.Now = o.Now.Add(a.Moment().Sub(Noon))
	return &o
}

// partlySeen: caches fill one by one, and objects go one by one.
func partlySeen(a Source, golden []*compose.Observation) *compose.Observation {
	o := *OneOf(a, golden...)
	o.Workloads, o.JobSets, o.Jobs, o.LeaderPods = part(a, o.Workloads), part(a, o.JobSets), part(a, o.Jobs), part(a, o.LeaderPods)
	o.LocalQueues, o.ClusterQueues, o.Flavors = part(a, o.LocalQueues), part(a, o.ClusterQueues), part(a, o.Flavors)
	if a.Rarely(3) {
		o.Control = nil
	}
	if a.Rarely(3) {
		parent := *o.Parent
		parent.Status = v1beta1.ResumableTrainingJobStatus{}
		o.Parent = &parent
	}
	return &o
}

func part[T any](a Source, list []T) []T {
	var some []T
	for _, item := range list {
		if !a.Rarely(3) {
			some = append(some, item)
		}
	}
	return some
}

// mixed is what a stale view looks like: each kind of object is as old as it likes.
func mixed(a Source, golden []*compose.Observation) *compose.Observation {
	o, other := *OneOf(a, golden...), OneOf(a, golden...)
	for _, take := range []func(){
		func() { o.Parent = other.Parent }, func() { o.Workloads = other.Workloads }, func() { o.JobSets = other.JobSets },
		func() { o.Jobs = other.Jobs }, func() { o.Control = other.Control }, func() { o.Catalog = other.Catalog }, func() { o.Now = other.Now },
	} {
		if a.Rarely(3) {
			take()
		}
	}
	return &o
}

func withAnotherStore(a Source, golden []*compose.Observation) *compose.Observation {
	o := *OneOf(a, golden...)
	o.Catalog = a.Catalog()
	if o.Catalog != nil && !o.Catalog.ListedAt.IsZero() && a.Rarely(2) {
		o.Catalog.ListedAt = o.Now
	}
	return &o
}
