package kueue

import (
	"slices"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// slot is a resource of a flavor: what quota is given in.
type slot struct{ flavor, resource string }

// holding is the quota that the scheduler's cache has a Workload hold.
type holding struct {
	object *apiserver.Object
	queue  string
	used   map[slot]int64
	// since is when it was reserved.
	since time.Time
}

// quota is what a ClusterQueue gives, by the version of its spec.
type quota struct {
	groups  []resourceGroup
	within  string // preemption.withinClusterQueue
	nextTry bool   // flavorFungibility.whenCanPreempt: TryNextFlavor
	strict  bool   // queueingStrategy: StrictFIFO
	checks  []admissionCheck
}

type resourceGroup struct {
	covered []string
	flavors []flavorQuota
}

type flavorQuota struct {
	name    string
	nominal map[string]int64
}

type admissionCheck struct {
	name string
	// flavors for which it is; none: all.
	flavors []string
}

type quotaKey struct{}

func quotaOf(cq *apiserver.Object) *quota {
	return cq.Cached(quotaKey{}, func() any {
		q := &quota{within: cq.Text("spec", "preemption", "withinClusterQueue"), nextTry: true}
		switch cq.Text("spec", "flavorFungibility", "whenCanPreempt") {
		case "Preempt", "MayStopSearch":
			q.nextTry = false
		}
		q.strict = cq.Text("spec", "queueingStrategy") == "StrictFIFO"
		for _, item := range cq.List("spec", "resourceGroups") {
			m, _ := item.(map[string]any)
			group := resourceGroup{covered: words(m["coveredResources"])}
			for _, f := range objects(m["flavors"]) {
				flavor := flavorQuota{nominal: map[string]int64{}}
				flavor.name, _ = f["name"].(string)
				for _, r := range objects(f["resources"]) {
					name, _ := r["name"].(string)
					flavor.nominal[name] = amount(name, r["nominalQuota"])
				}
				group.flavors = append(group.flavors, flavor)
			}
			q.groups = append(q.groups, group)
		}
		strategy, _ := cq.At("spec", "admissionChecksStrategy").(map[string]any)
		for _, c := range objects(strategy["admissionChecks"]) {
			check := admissionCheck{flavors: words(c["onFlavors"])}
			check.name, _ = c["name"].(string)
			q.checks = append(q.checks, check)
		}
		return q
	}).(*quota)
}

// flavorNames are all flavors, in their order.
func (q *quota) flavorNames() (names []string) {
	for _, g := range q.groups {
		for _, f := range g.flavors {
			names = append(names, f.name)
		}
	}
	return names
}

func (q *quota) group(resource string) *resourceGroup {
	for i := range q.groups {
		if slices.Contains(q.groups[i].covered, resource) {
			return &q.groups[i]
		}
	}
	return nil
}

func (q *quota) nominal(s slot) int64 {
	if g := q.group(s.resource); g != nil {
		for _, f := range g.flavors {
			if f.name == s.flavor {
				return f.nominal[s.resource]
			}
		}
	}
	return 0
}

// count has a Workload hold the quota of its admission, or none.
func (k *Kueue) count(w *workload) {
	o := w.seen
	if !o.True(quotaReserved) || finished(o) || !active(o) || k.queue(o.Text("status", "admission", "clusterQueue")) == nil {
		w.counted = nil
		return
	}
	w.counted = &holding{
		object: o, queue: o.Text("status", "admission", "clusterQueue"),
		used: usageOf(o), since: transition(o.Condition(quotaReserved)),
	}
}

type usageKey struct{}

// usageOf is what an admission uses. A podSet that asks for less by now uses less.
func usageOf(o *apiserver.Object) map[slot]int64 {
	sets := demandOf(o)
	return o.Cached(usageKey{}, func() any {
		used := map[slot]int64{}
		wants := map[string]int64{}
		for _, set := range sets {
			wants[set.name] = set.count
		}
		for _, a := range objects(o.At("status", "admission", "podSetAssignments")) {
			name, _ := a["name"].(string)
			count, ok := number(a["count"])
			if !ok {
				count = wants[name]
			}
			flavors, _ := a["flavors"].(map[string]any)
			usage, _ := a["resourceUsage"].(map[string]any)
			for res, value := range usage {
				flavor, _ := flavors[res].(string)
				n := amount(res, value)
				if wants[name] < count && count > 0 {
					n = n / count * wants[name]
				}
				used[slot{flavor, res}] += n
			}
		}
		return used
	}).(map[slot]int64)
}

// held are the holdings in a ClusterQueue, in a stable order.
func (k *Kueue) held(queue string) (list []*holding) {
	for i := range k.workloads {
		if h := k.workloads[i].counted; h != nil && h.queue == queue {
			list = append(list, h)
		}
	}
	return list
}

func sum(held []*holding) map[slot]int64 {
	used := map[slot]int64{}
	for _, h := range held {
		for s, n := range h.used {
			used[s] += n
		}
	}
	return used
}

func objects(value any) (list []map[string]any) {
	items, _ := value.([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			list = append(list, m)
		}
	}
	return list
}

func words(value any) (list []string) {
	items, _ := value.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok {
			list = append(list, text)
		}
	}
	return list
}
