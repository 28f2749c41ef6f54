package jobs

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

const byScheduler = "scheduler"

// schedulerEvents binds pods to nodes: each to the first, by name, that has room and
// that the pod may run on.
func (c *Cluster) schedulerEvents(add func(event.Event)) {
	for _, o := range c.API.List("Pod") {
		p := podOf(o)
		if p.node != "" || !p.active() || len(p.List("spec", "schedulingGates")) > 0 {
			continue
		}
		if node := c.nodeFor(p); node != nil {
			add(event.Event{Name: "scheduler: bind " + p.Key(), Do: func() { c.bind(p, node.Name) }})
		}
	}
}

func (c *Cluster) nodeFor(p *pod) *apiserver.Object {
	for _, node := range c.API.List("Node") {
		if !node.Deleting() && selects(p, node) && tolerates(p, node) && c.hasRoom(p, node) {
			return node
		}
	}
	return nil
}

func selects(p *pod, node *apiserver.Object) bool {
	for key, value := range below(p.Body, "spec", "nodeSelector") {
		if node.At("metadata", "labels", key) != value {
			return false
		}
	}
	return true
}

// tolerates what keeps new pods away.
func tolerates(p *pod, node *apiserver.Object) bool {
	if node.Bool("spec", "unschedulable") {
		return false
	}
	for _, item := range node.List("spec", "taints") {
		taint, _ := item.(object)
		if taint["effect"] != string(corev1.TaintEffectPreferNoSchedule) && toleration(p, taint) == nil {
			return false
		}
	}
	return true
}

// toleration of a taint that a pod has; nil: none.
func toleration(p *pod, taint object) object {
	for _, item := range p.List("spec", "tolerations") {
		t, _ := item.(object)
		if effect := text(t, "effect"); effect != "" && effect != taint["effect"] {
			continue
		}
		exists := t["operator"] == string(corev1.TolerationOpExists)
		if key := text(t, "key"); key == "" && exists || key != "" && key == taint["key"] && (exists || text(t, "value") == text(taint, "value")) {
			return t
		}
	}
	return nil
}

// hasRoom counts the requests of all pods that have not ended, those that terminate
// included.
func (c *Cluster) hasRoom(p *pod, node *apiserver.Object) bool {
	allocatable := below(node.Body, "status", "allocatable")
	if allocatable == nil {
		return true
	}
	used, want := map[string]int64{"pods": 1000}, p.requests()
	for _, o := range c.API.List("Pod") {
		if other := podOf(o); other.node == node.Name && !other.ended() {
			used["pods"] += 1000
			for name, n := range other.requests() {
				used[name] += n
			}
		}
	}
	for name, n := range want {
		used[name] += n
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if value, ok := allocatable[name]; (ok || want[name] > 0) && used[name] > milli(value) {
			return false
		}
	}
	return true
}

type requestsKey struct{}

// requests of a pod's containers by resource, in thousandths.
func (p *pod) requests() map[string]int64 {
	return p.Cached(requestsKey{}, func() any {
		sum := map[string]int64{}
		for _, item := range p.List("spec", "containers") {
			container, _ := item.(object)
			for name, value := range with(below(container, "resources", "limits"), below(container, "resources", "requests")) {
				sum[name] += milli(value)
			}
		}
		return sum
	}).(map[string]int64)
}

// milli reads a quantity, in thousandths; 0 when there is none.
func milli(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v * 1000
	case string:
		if q, err := resource.ParseQuantity(v); err == nil {
			return q.MilliValue()
		}
	}
	return 0
}

func (c *Cluster) bind(p *pod, node string) {
	o, err := c.API.Patch(byScheduler, "Pod", p.Namespace, p.Name, object{"metadata": object{"uid": p.UID}, "spec": object{"nodeName": node}}, "")
	if err != nil {
		return
	}
	c.setPodStatus(byScheduler, podOf(o), func(status object) {
		setPodCondition(status, c.Now(), "PodScheduled", "True", "", "")
	})
}
