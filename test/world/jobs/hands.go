package jobs

import (
	"fmt"
	"slices"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// byAdministrator signs what people and machines outside of the controllers do.
const byAdministrator = "administrator"

// LoseNode has a node's kubelet fall silent. The processes of its pods go on, and
// nobody ends them until it returns.
func (c *Cluster) LoseNode(name string) error {
	node := c.API.Get("Node", "", name)
	if node == nil || c.lost(name) != nil {
		return fmt.Errorf("there is no node %s that could be lost", name)
	}
	c.lostNodes = append(c.lostNodes, lostNode{name: name, since: c.Now(), node: node})
	return nil
}

// ReturnNode has a lost node's kubelet be heard again. It registers its node anew if
// that was deleted, and ends what runs there and should not.
func (c *Cluster) ReturnNode(name string) error {
	lost := c.lost(name)
	if lost == nil {
		return fmt.Errorf("node %s is not lost", name)
	}
	was := lost.node
	c.lostNodes = slices.DeleteFunc(c.lostNodes, func(l lostNode) bool { return l.name == name })
	c.goneNodes = slices.DeleteFunc(c.goneNodes, func(g goneNode) bool { return g.name == name })
	if c.API.Get("Node", "", name) == nil {
		if err := c.register(was); err != nil {
			return err
		}
	}
	c.forget()
	return nil
}

// register creates a node as it was, ready and without taints.
func (c *Cluster) register(was *apiserver.Object) error {
	body := object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": was.Name, "labels": was.At("metadata", "labels")}}
	if was.At("metadata", "labels") == nil {
		body["metadata"] = object{"name": was.Name}
	}
	if _, err := c.API.Create(byKubelet, body); err != nil {
		return err
	}
	_, err := c.API.Patch(byKubelet, "Node", "", was.Name, object{"status": object{"allocatable": was.At("status", "allocatable")}}, apiserver.Status)
	return err
}

// DeleteNode deletes the Node object of a lost node, as a cloud's controller does
// with a machine that is gone.
func (c *Cluster) DeleteNode(name string) error {
	return c.API.Delete(byAdministrator, "Node", "", name, apiserver.Deletion{})
}

// Drain has no new pods come to a node and evicts those that are there.
func (c *Cluster) Drain(node string) error {
	if err := c.cordon(node, true); err != nil {
		return err
	}
	for _, o := range c.API.List("Pod") {
		if p := podOf(o); p.node == node && !p.deleting {
			c.evict(p)
		}
	}
	return nil
}

// Uncordon lets pods come to a node again.
func (c *Cluster) Uncordon(node string) error { return c.cordon(node, false) }

func (c *Cluster) cordon(node string, unschedulable bool) error {
	var value any
	if unschedulable {
		value = true
	}
	_, err := c.API.Patch(byAdministrator, "Node", "", node, object{"spec": object{"unschedulable": value}}, "")
	return err
}

func (c *Cluster) evict(p *pod) {
	c.disruptAndDelete(byAdministrator, p, "EvictionByEvictionAPI", "Eviction API: evicting")
}

// Evict evicts a pod by the eviction API.
func (c *Cluster) Evict(namespace, name string) error {
	return c.with(namespace, name, c.evict)
}

// DeletePod deletes a pod by hand, with its own grace period or, if not negative,
// another one in seconds.
func (c *Cluster) DeletePod(namespace, name string, grace int64) error {
	return c.with(namespace, name, func(p *pod) { c.deletePod(byAdministrator, p, grace) })
}

// DeleteJob deletes a Job by hand, in the background.
func (c *Cluster) DeleteJob(namespace, name string) error {
	return c.API.Delete(byAdministrator, "Job", namespace, name, apiserver.Deletion{})
}

// Pressure has the kubelet evict a pod because its node runs short of memory.
func (c *Cluster) Pressure(namespace, name string) error {
	return c.with(namespace, name, func(p *pod) {
		c.known(p).evicted = true
	})
}

// OutOfMemory has the kernel kill the processes of a pod.
func (c *Cluster) OutOfMemory(namespace, name string) error {
	return c.with(namespace, name, func(p *pod) {
		c.known(p).outOfMemory = true
		c.Workers.Kill(p.UID)
	})
}

// Unpullable has the image of a pod that did not start be one that cannot be had.
func (c *Cluster) Unpullable(namespace, name string) error {
	return c.waits(namespace, name, "ImagePullBackOff", func(r *process) { r.unpullable = true })
}

// Slow has a pod that did not start take its time.
func (c *Cluster) Slow(namespace, name string, d time.Duration) error {
	return c.waits(namespace, name, "ContainerCreating", func(r *process) { r.slowUntil = c.Now().Add(d) })
}

func (c *Cluster) waits(namespace, name, reason string, change func(*process)) error {
	return c.with(namespace, name, func(p *pod) {
		change(c.known(p))
		c.setPodStatus(byKubelet, p, func(status object) {
			setReady(status, c.Now(), false, "ContainersNotReady")
			status["containerStatuses"] = containers(p, false, func(string) object { return object{"waiting": object{"reason": reason}} })
		})
	})
}

func (c *Cluster) with(namespace, name string, do func(*pod)) error {
	o := c.API.Get("Pod", namespace, name)
	if o == nil {
		return fmt.Errorf("there is no pod %s/%s", namespace, name)
	}
	do(podOf(o))
	return nil
}

// quotaName is the ResourceQuota that RefuseCreations makes.
const quotaName = "too-small"

// Refuse has a ResourceQuota refuse the creation of more objects of a kind in a
// namespace: JobSet, Job or Pod.
func (c *Cluster) Refuse(namespace, kind string) error {
	hard := object{counted[kind]: "0"}
	if c.API.Get("ResourceQuota", namespace, quotaName) != nil {
		_, err := c.API.Patch(byAdministrator, "ResourceQuota", namespace, quotaName, object{"spec": object{"hard": hard}}, "")
		return err
	}
	_, err := c.API.Create(byAdministrator, object{
		"apiVersion": "v1", "kind": "ResourceQuota", "metadata": object{"namespace": namespace, "name": quotaName}, "spec": object{"hard": hard},
	})
	return err
}

// Permit takes that ResourceQuota away.
func (c *Cluster) Permit(namespace string) error {
	return c.API.Delete(byAdministrator, "ResourceQuota", namespace, quotaName, apiserver.Deletion{})
}

// Heal ends all faults that last: nodes are back and take pods, images can be had,
// quotas permit.
func (c *Cluster) Heal() {
	for len(c.lostNodes) > 0 {
		if err := c.ReturnNode(c.lostNodes[0].name); err != nil {
			panic(err) // it is lost
		}
	}
	for _, node := range c.API.List("Node") {
		if node.Bool("spec", "unschedulable") {
			_ = c.Uncordon(node.Name)
		}
	}
	for _, quota := range c.API.List("ResourceQuota") {
		if quota.Name == quotaName {
			_ = c.Permit(quota.Namespace)
		}
	}
	for i := range c.processes {
		c.processes[i].unpullable, c.processes[i].slowUntil = false, time.Time{}
	}
}
