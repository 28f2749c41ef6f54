package jobs

import (
	"time"

	"rtj.dev/rtj/test/world/event"
)

// faultEvents are what goes wrong with nodes and pods, and what undoes it: also that
// does not happen where everything works.
func (c *Cluster) faultEvents(add func(event.Event)) {
	fault := func(name string, do func() error) {
		add(event.Event{Name: name, Fault: true, Do: func() { _ = do() }})
	}
	for _, lost := range c.lostNodes {
		fault("fault: return node "+lost.name, func() error { return c.ReturnNode(lost.name) })
		if c.API.Get("Node", "", lost.name) != nil {
			fault("fault: delete node "+lost.name, func() error { return c.DeleteNode(lost.name) })
		}
	}
	for _, node := range c.API.List("Node") {
		if c.lost(node.Name) != nil {
			continue
		}
		fault("fault: lose node "+node.Name, func() error { return c.LoseNode(node.Name) })
		if node.Bool("spec", "unschedulable") {
			fault("fault: uncordon node "+node.Name, func() error { return c.Uncordon(node.Name) })
		} else {
			fault("fault: drain node "+node.Name, func() error { return c.Drain(node.Name) })
		}
	}
	for _, o := range c.API.List("Pod") {
		if p := podOf(o); !p.ended() {
			c.podFaults(p, fault)
		}
	}
	for _, o := range c.API.List("Job") {
		if !o.Deleting() {
			fault("fault: delete job "+o.Key(), func() error { return c.DeleteJob(o.Namespace, o.Name) })
		}
	}
	for _, ns := range c.API.List("Namespace") {
		if c.API.Get("ResourceQuota", ns.Name, quotaName) != nil {
			fault("fault: permit in "+ns.Name, func() error { return c.Permit(ns.Name) })
			continue
		}
		for _, kind := range []string{"JobSet", "Job", "Pod"} {
			fault("fault: refuse "+kind+" in "+ns.Name, func() error { return c.Refuse(ns.Name, kind) })
		}
	}
}

func (c *Cluster) podFaults(p *pod, fault func(string, func() error)) {
	if !p.deleting {
		fault("fault: delete pod "+p.Key(), func() error { return c.DeletePod(p.Namespace, p.Name, -1) })
		fault("fault: evict pod "+p.Key(), func() error { return c.Evict(p.Namespace, p.Name) })
	} else if p.grace() > 0 {
		fault("fault: force pod "+p.Key(), func() error { return c.DeletePod(p.Namespace, p.Name, 0) })
	}
	r := c.process(p.UID)
	switch {
	case p.node == "" || !c.alive(p.node):
	case r == nil:
		fault("fault: unpullable image of "+p.Key(), func() error { return c.Unpullable(p.Namespace, p.Name) })
		fault("fault: slow start of "+p.Key(), func() error { return c.Slow(p.Namespace, p.Name, slowStart) })
	case r.started && !p.deleting && !r.evicted && !r.outOfMemory:
		fault("fault: pressure on "+p.Key(), func() error { return c.Pressure(p.Namespace, p.Name) })
		fault("fault: memory of "+p.Key(), func() error { return c.OutOfMemory(p.Namespace, p.Name) })
	}
}

// slowStart is how long a slow start takes: longer than most startup deadlines.
const slowStart = 20 * time.Minute
