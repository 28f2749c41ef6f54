package kueue

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"rtj.dev/rtj/test/world/apiserver"
)

// podSet is what one podSet asks for.
type podSet struct {
	name            string
	count, minCount int64
	// requests of one pod: thousandths of CPUs, whole units of all else.
	requests map[string]int64
	// template is the pod's spec, for node selector and tolerations.
	template map[string]any
}

func (p podSet) resources() []string { return slices.Sorted(maps.Keys(p.requests)) }

type demandKey struct{}

// demandOf is what a Workload asks for.
func demandOf(o *apiserver.Object) []podSet {
	return o.Cached(demandKey{}, func() any {
		var sets []podSet
		for _, item := range o.List("spec", "podSets") {
			m, _ := item.(map[string]any)
			template, _ := m["template"].(map[string]any)
			spec, _ := template["spec"].(map[string]any)
			set := podSet{count: 1, requests: podRequests(spec), template: spec}
			set.name, _ = m["name"].(string)
			if count, ok := number(m["count"]); ok {
				set.count = count
			}
			set.minCount = set.count
			if least, ok := number(m["minCount"]); ok {
				set.minCount = least
			}
			sets = append(sets, set)
		}
		return sets
	}).([]podSet)
}

// podRequests are those that the scheduler of Kubernetes counts: the containers and
// those beside them together, or the largest container that runs before them.
func podRequests(spec map[string]any) map[string]int64 {
	total := map[string]int64{}
	for _, c := range containers(spec, "containers") {
		add(total, containerRequests(c))
	}
	before := map[string]int64{}
	for _, c := range containers(spec, "initContainers") {
		requests := containerRequests(c)
		if c["restartPolicy"] == "Always" {
			add(total, requests)
			continue
		}
		for name, value := range requests {
			before[name] = max(before[name], value)
		}
	}
	for name, value := range before {
		total[name] = max(total[name], value)
	}
	overhead, _ := spec["overhead"].(map[string]any)
	add(total, quantities(overhead))
	return total
}

func containers(spec map[string]any, key string) (list []map[string]any) {
	items, _ := spec[key].([]any)
	for _, item := range items {
		if c, ok := item.(map[string]any); ok {
			list = append(list, c)
		}
	}
	return list
}

// containerRequests: a limit is a request where there is none.
func containerRequests(c map[string]any) map[string]int64 {
	resources, _ := c["resources"].(map[string]any)
	limits, _ := resources["limits"].(map[string]any)
	requests, _ := resources["requests"].(map[string]any)
	values := quantities(limits)
	maps.Copy(values, quantities(requests))
	return values
}

func quantities(list map[string]any) map[string]int64 {
	values := map[string]int64{}
	for name, value := range list {
		values[name] = amount(name, value)
	}
	return values
}

// amount reads a quantity in Kueue's unit.
func amount(name string, value any) int64 {
	if n, ok := number(value); ok {
		if name == "cpu" {
			return n * 1000
		}
		return n
	}
	text, ok := value.(string)
	if !ok {
		if f, isFloat := value.(float64); isFloat {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	if name == "cpu" {
		return q.MilliValue()
	}
	return q.Value()
}

// quantity writes an amount as Kueue does.
func quantity(name string, value int64) string {
	switch name {
	case "cpu":
		return resource.NewMilliQuantity(value, resource.DecimalSI).String()
	case "memory", "ephemeral-storage":
		return resource.NewQuantity(value, resource.BinarySI).String()
	}
	return resource.NewQuantity(value, resource.DecimalSI).String()
}

func number(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), n == float64(int64(n))
	}
	return 0, false
}

func add(total, more map[string]int64) {
	for name, value := range more {
		total[name] += value
	}
}
