package jobs

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

const (
	byNodes  = "nodes"
	byTaints = "taints"
	byPodGC  = "podgc"

	taintNotReady    = corev1.TaintNodeNotReady
	taintUnreachable = corev1.TaintNodeUnreachable

	// silence is how long a node may say nothing until it is taken to be unreachable.
	silence = 50 * time.Second
	// quarantine is how long pods of a node that is gone wait for it to show up.
	quarantine = 40 * time.Second
)

// lostNode is one whose kubelet is silent. Its processes go on.
type lostNode struct {
	name  string
	since time.Time
	// node is what its kubelet registers when it returns, if it was deleted.
	node *apiserver.Object
}

// goneNode is one that does not exist and that pods are bound to.
type goneNode struct {
	name  string
	since time.Time
}

func (c *Cluster) lost(node string) *lostNode {
	for i := range c.lostNodes {
		if c.lostNodes[i].name == node {
			return &c.lostNodes[i]
		}
	}
	return nil
}

// alive: its kubelet works.
func (c *Cluster) alive(node string) bool {
	return c.lost(node) == nil && c.API.Get("Node", "", node) != nil
}

// nodeEvents are what the control plane does about nodes that are lost, about those
// that are back, and about pods of nodes that are gone.
func (c *Cluster) nodeEvents(add func(event.Event)) {
	evicting := c.evicting()
	for _, node := range c.API.List("Node") {
		silent, tainted := node.Condition("Ready")["status"] == "Unknown", executes(node) != nil
		switch lost := c.lost(node.Name); {
		case lost != nil && !silent && !c.Now().Before(lost.since.Add(silence)):
			add(event.Event{Name: "nodes: unreachable " + node.Name, Do: func() { c.setUnreachable(node) }})
		case lost == nil && silent:
			add(event.Event{Name: "nodes: ready " + node.Name, Do: func() { c.setReady(node) }})
		case evicting && silent && !tainted:
			add(event.Event{Name: "nodes: taint " + node.Name, Do: func() { c.taint(node) }})
		case tainted && (!silent || c.allSilent()):
			add(event.Event{Name: "nodes: untaint " + node.Name, Do: func() { c.untaint(node) }})
		}
	}
	for _, o := range c.API.List("Pod") {
		p := podOf(o)
		if due := c.evictionDue(p); !due.IsZero() && !c.Now().Before(due) {
			add(event.Event{Name: "taints: evict " + p.Key(), Do: func() {
				c.disruptAndDelete(byTaints, p, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
			}})
		}
		c.collectEvents(p, add)
	}
}

// collectEvents are those of the pod garbage collector.
func (c *Cluster) collectEvents(p *pod, add func(event.Event)) {
	switch {
	case p.node == "" && p.deleting && !p.ended():
		add(event.Event{Name: "podgc: collect " + p.Key(), Do: func() { c.failAndDelete(p, nil) }})
	case p.node == "" || c.API.Get("Node", "", p.node) != nil || p.ended() && p.deleting:
	case c.gone(p.node) == nil:
		add(event.Event{Name: "podgc: miss " + p.node + " of " + p.Key(), Do: func() { c.goneNodes = append(c.goneNodes, goneNode{p.node, c.Now()}) }})
	case !c.Now().Before(c.gone(p.node).since.Add(quarantine)):
		add(event.Event{Name: "podgc: collect " + p.Key(), Do: func() {
			c.failAndDelete(p, func(status object) { disrupt(status, c.Now(), "DeletionByPodGC", "PodGC: node no longer exists") })
		}})
	}
}

func (c *Cluster) gone(node string) *goneNode {
	for i := range c.goneNodes {
		if c.goneNodes[i].name == node {
			return &c.goneNodes[i]
		}
	}
	return nil
}

// failAndDelete has a pod that no kubelet ends be Failed, and deletes it at once.
func (c *Cluster) failAndDelete(p *pod, why func(status object)) {
	if !p.ended() {
		c.setPodStatus(byPodGC, p, func(status object) {
			status["phase"] = string(corev1.PodFailed)
			if why != nil {
				why(status)
			}
		})
	}
	c.deletePod(byPodGC, p, 0)
}

// deletePod deletes this very pod; a negative grace is its own.
func (c *Cluster) deletePod(by string, p *pod, grace int64) {
	d := apiserver.Deletion{UID: p.UID}
	if grace >= 0 {
		d.Grace = &grace
	}
	_ = c.API.Delete(by, "Pod", p.Namespace, p.Name, d)
}

// disruptAndDelete is how a pod is evicted.
func (c *Cluster) disruptAndDelete(by string, p *pod, reason, message string) {
	if !p.ended() {
		c.setPodStatus(by, p, func(status object) { disrupt(status, c.Now(), reason, message) })
	}
	c.deletePod(by, p, -1)
}

// executes returns the taint for which the pods of an unreachable node are deleted; nil:
// they are not.
func executes(node *apiserver.Object) object {
	for _, item := range node.List("spec", "taints") {
		if taint, _ := item.(object); taint["key"] == taintUnreachable && taint["effect"] == string(corev1.TaintEffectNoExecute) {
			return taint
		}
	}
	return nil
}

// evictionDue is when a pod is deleted because its node is unreachable; zero: never.
func (c *Cluster) evictionDue(p *pod) time.Time {
	if p.node == "" || p.deleting || p.ended() {
		return time.Time{}
	}
	node := c.API.Get("Node", "", p.node)
	if node == nil {
		return time.Time{}
	}
	taint := executes(node)
	if taint == nil {
		return time.Time{}
	}
	seconds := int64(0)
	if t := toleration(p, taint); t != nil {
		if seconds = number(t, -1, "tolerationSeconds"); seconds < 0 {
			return time.Time{}
		}
	}
	return moment(text(taint, "timeAdded")).Add(time.Duration(seconds) * time.Second)
}

// allSilent: no node is heard. Then nothing is evicted: it may be the network.
func (c *Cluster) allSilent() bool {
	for _, node := range c.API.List("Node") {
		if node.Condition("Ready")["status"] != "Unknown" {
			return false
		}
	}
	return true
}

// evicting tells whether pods of silent nodes are deleted: not while all are silent,
// nor, in a small cluster, while more than two are and with them more than half.
func (c *Cluster) evicting() bool {
	silent := 0
	nodes := c.API.List("Node")
	for _, node := range nodes {
		if node.Condition("Ready")["status"] == "Unknown" {
			silent++
		}
	}
	return silent < len(nodes) && (silent <= 2 || float64(silent)/float64(len(nodes)) < 0.55)
}

// setUnreachable marks a node that says nothing, and its pods as not ready.
func (c *Cluster) setUnreachable(node *apiserver.Object) {
	c.setTaints(node, append(slices.Clone(node.List("spec", "taints")), unreachable(corev1.TaintEffectNoSchedule, c.Now())))
	c.setReadiness(node, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
	for _, o := range c.API.List("Pod") {
		if p := podOf(o); p.node == node.Name && p.ready {
			c.setPodStatus(byNodes, p, func(status object) { setPodCondition(status, c.Now(), corev1.PodReady, "False", "NodeNotReady", "") })
		}
	}
}

func unreachable(effect corev1.TaintEffect, now time.Time) object {
	return object{"key": taintUnreachable, "effect": string(effect), "timeAdded": timestamp(now)}
}

// setReady undoes it, once the kubelet is heard again.
func (c *Cluster) setReady(node *apiserver.Object) {
	c.setTaints(node, without(node.List("spec", "taints"), corev1.TaintEffectNoSchedule))
	c.setReadiness(node, "True", "KubeletReady", "kubelet is posting ready status")
}

func (c *Cluster) taint(node *apiserver.Object) {
	c.setTaints(node, append(slices.Clone(node.List("spec", "taints")), unreachable(corev1.TaintEffectNoExecute, c.Now())))
}

func (c *Cluster) untaint(node *apiserver.Object) {
	c.setTaints(node, without(node.List("spec", "taints"), corev1.TaintEffectNoExecute))
}

func without(taints []any, effect corev1.TaintEffect) []any {
	return slices.DeleteFunc(slices.Clone(taints), func(item any) bool {
		taint := item.(object)
		return taint["key"] == taintUnreachable && taint["effect"] == string(effect)
	})
}

func (c *Cluster) setTaints(node *apiserver.Object, taints []any) {
	var spec any
	if len(taints) > 0 {
		spec = taints
	}
	_, _ = c.API.Patch(byNodes, "Node", "", node.Name, object{"spec": object{"taints": spec}}, "")
}

func (c *Cluster) setReadiness(node *apiserver.Object, ready, reason, message string) {
	status := with(below(node.Body, "status"), nil)
	setPodCondition(status, c.Now(), "Ready", ready, reason, message)
	_, _ = c.API.Patch(byNodes, "Node", "", node.Name, object{"status": status}, apiserver.Status)
}

// nodeNext is when a silent node becomes unreachable, or its pods are evicted.
func (c *Cluster) nodeNext() (soonest time.Time) {
	later := func(t time.Time) {
		if t.After(c.Now()) {
			soonest = event.Soonest(soonest, t)
		}
	}
	for _, lost := range c.lostNodes {
		later(lost.since.Add(silence))
	}
	for _, gone := range c.goneNodes {
		later(gone.since.Add(quarantine))
	}
	for _, o := range c.API.List("Pod") {
		later(c.evictionDue(podOf(o)))
	}
	return soonest
}
