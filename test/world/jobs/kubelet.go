package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/test/world/event"
)

const byKubelet = "kubelet"

// refreshPeriod is how late a ConfigMap reaches a running pod at the latest, where
// nothing else has the kubelet look at the pod.
const refreshPeriod = 67 * time.Second

// process is what the kubelet of a node knows of a pod that it has, and what runs
// there whatever the API server says.
type process struct {
	uid, namespace, name, node string
	// grace is the pod's own period after SIGTERM.
	grace time.Duration
	// volume is where the control directory comes from.
	volume controlVolume
	// control and notice are what it holds; syncedAt is when the kubelet looked last.
	control, notice string
	syncedAt        time.Time

	started bool
	// unpullable: its image cannot be had. slowUntil is when it can.
	unpullable bool
	slowUntil  time.Time
	// killAt is when SIGKILL follows SIGTERM; zero: there was no SIGTERM. given is the
	// grace that was given.
	killAt time.Time
	given  time.Duration
	killed bool
	// evicted by the kubelet, outOfMemory killed by the kernel.
	evicted, outOfMemory bool
}

// controlVolume is the projected volume of a pod that has a ConfigMap and an
// annotation.
type controlVolume struct{ configMap, key, annotation string }

func controlVolumeOf(p *pod) (v controlVolume) {
	for _, item := range p.List("spec", "volumes") {
		volume, _ := item.(object)
		for _, item := range list(volume, "projected", "sources") {
			source, _ := item.(object)
			for _, item := range list(source, "configMap", "items") {
				v.configMap, v.key = text(source, "configMap", "name"), text(item.(object), "key")
			}
			for _, item := range list(source, "downwardAPI", "items") {
				path := text(item.(object), "fieldRef", "fieldPath")
				if key, ok := strings.CutPrefix(path, "metadata.annotations['"); ok {
					v.annotation = strings.TrimSuffix(key, "']")
				}
			}
		}
	}
	return v
}

// content of the control directory as the API server has it now.
func (c *Cluster) content(p *pod, v controlVolume) (control, notice string) {
	return c.document(p.Namespace, v), p.Annotation(v.annotation)
}

// document is the part that comes from the ConfigMap.
func (c *Cluster) document(namespace string, v controlVolume) string {
	if o := c.API.Get("ConfigMap", namespace, v.configMap); o != nil {
		return o.Text("data", v.key)
	}
	return ""
}

func (c *Cluster) process(uid string) *process {
	for i := range c.processes {
		if c.processes[i].uid == uid {
			return &c.processes[i]
		}
	}
	return nil
}

// known returns the record of a pod, which is made if there is none.
func (c *Cluster) known(p *pod) *process {
	if r := c.process(p.UID); r != nil {
		return r
	}
	c.processes = append(c.processes, process{
		uid: p.UID, namespace: p.Namespace, name: p.Name, node: p.node, volume: controlVolumeOf(p),
		grace: time.Duration(number(p.Body, 30, "spec", "terminationGracePeriodSeconds")) * time.Second,
	})
	return &c.processes[len(c.processes)-1]
}

// forget drops the records of pods that are gone with their processes, on nodes that
// are seen.
func (c *Cluster) forget() {
	c.processes = slices.DeleteFunc(c.processes, func(r process) bool {
		if o := c.API.Get("Pod", r.namespace, r.name); o != nil && o.UID == r.uid || c.lost(r.node) != nil {
			return false
		}
		if !r.started {
			return true
		}
		_, exited, _ := c.Workers.State(r.uid)
		return exited
	})
}

// kubeletEvents are what the kubelets of the nodes do that are not lost.
func (c *Cluster) kubeletEvents(add func(event.Event)) {
	for _, o := range c.API.List("Pod") {
		p := podOf(o)
		if p.node == "" || !c.alive(p.node) {
			continue
		}
		does := func(what string, do func()) {
			add(event.Event{Name: "kubelet: " + what + " " + p.Key(), Do: func() {
				do()
				c.forget()
			}})
		}
		if r := c.process(p.UID); r == nil || !r.started {
			c.unstarted(p, r, does)
		} else {
			c.startedPod(p, r, does)
		}
	}
	// Processes whose pod is gone from the API.
	for i := range c.processes {
		r := &c.processes[i]
		if !r.started || c.lost(r.node) != nil {
			continue
		}
		if o := c.API.Get("Pod", r.namespace, r.name); o != nil && o.UID == r.uid {
			continue
		}
		if _, exited, _ := c.Workers.State(r.uid); exited {
			continue
		}
		if what, do := c.stop(r, r.grace); do != nil {
			add(event.Event{Name: fmt.Sprintf("kubelet: %s left behind %s/%s", what, r.namespace, r.name), Do: func() {
				do()
				c.forget()
			}})
		}
	}
}

// unstarted is what becomes of a pod that does not run yet.
func (c *Cluster) unstarted(p *pod, r *process, does func(string, func())) {
	switch {
	case p.deleting && p.ended():
		c.remove(p, does)
	case p.deleting:
		does("end", func() { c.endUnstarted(p) })
	case p.ended() || r != nil && (r.unpullable || c.Now().Before(r.slowUntil)):
	default:
		does("start", func() { c.start(p) })
	}
}

// startedPod is what the kubelet does with a pod that runs or has ended.
func (c *Cluster) startedPod(p *pod, r *process, does func(string, func())) {
	ready, exited, code := c.Workers.State(p.UID)
	if exited {
		switch {
		case !p.ended():
			does("end", func() { c.end(p, r, code) })
		case p.deleting:
			c.remove(p, does)
		}
		return
	}
	if p.phase == corev1.PodPending || ready != p.ready && !p.deleting && !p.ended() {
		does("report", func() { c.report(p, ready) })
	}
	if p.deleting || p.ended() || r.evicted {
		grace := time.Duration(p.grace()) * time.Second
		if r.evicted {
			grace = 0
		}
		if what, do := c.stop(r, grace); do != nil {
			does(what, do)
		}
		return
	}
	control, notice := c.content(p, r.volume)
	if notice != r.notice || control != r.control && !c.Now().Before(r.syncedAt.Add(refreshPeriod)) {
		does("refresh", func() { c.project(p, control, notice) })
	}
}

// start starts the containers of a pod. Its volumes are there before; that it runs is
// reported later.
func (c *Cluster) start(p *pod) {
	r := c.known(p)
	r.started = true
	control, notice := c.content(p, r.volume)
	c.project(p, control, notice)
	c.Workers.Start(p.Object)
}

// report is the status of a pod whose containers run.
func (c *Cluster) report(p *pod, ready bool) {
	c.setPodStatus(byKubelet, p, func(status object) {
		reason := ""
		if !ready {
			reason = "ContainersNotReady"
		}
		if p.phase == corev1.PodPending {
			status["phase"], status["startTime"] = string(corev1.PodRunning), timestamp(c.Now())
			setPodCondition(status, c.Now(), corev1.PodInitialized, "True", "", "")
		}
		setReady(status, c.Now(), ready, reason)
		startedAt := text(status, "startTime")
		status["containerStatuses"] = containers(p, ready, func(string) object { return object{"running": object{"startedAt": startedAt}} })
	})
}

func (c *Cluster) project(p *pod, control, notice string) {
	r := c.process(p.UID)
	r.control, r.notice, r.syncedAt = control, notice, c.Now()
	c.Workers.Projected(p.UID, control, notice)
}

// minGrace is what processes get between SIGTERM and SIGKILL at least.
const minGrace = 2 * time.Second

// stop is SIGTERM and, when the grace period is over, SIGKILL. The period can only be
// shortened afterwards.
func (c *Cluster) stop(r *process, grace time.Duration) (string, func()) {
	uid := r.uid
	grace = max(grace, minGrace)
	switch {
	case r.killed:
	case r.killAt.IsZero():
		return "terminate", func() {
			r := c.process(uid)
			r.killAt, r.given = c.Now().Add(grace), grace
			c.Workers.Terminate(uid)
		}
	case grace < r.given && c.Now().Add(grace).Before(r.killAt):
		return "hurry", func() {
			r := c.process(uid)
			r.killAt, r.given = c.Now().Add(grace), grace
		}
	case !c.Now().Before(r.killAt):
		return "kill", func() {
			c.process(uid).killed = true
			c.Workers.Kill(uid)
		}
	}
	return "", nil
}

// end reports that the processes of a pod ended.
func (c *Cluster) end(p *pod, r *process, code int32) {
	c.setPodStatus(byKubelet, p, func(status object) {
		phase, reason, why := corev1.PodSucceeded, "PodCompleted", "Completed"
		if code != 0 || r.evicted {
			phase, reason, why = corev1.PodFailed, "PodFailed", "Error"
		}
		if r.outOfMemory && code == 137 {
			why = "OOMKilled"
		}
		if r.evicted {
			status["reason"], status["message"] = "Evicted", evictedMessage
			disrupt(status, c.Now(), corev1.PodReasonTerminationByKubelet, evictedMessage)
		}
		status["phase"] = string(phase)
		setReady(status, c.Now(), false, reason)
		status["containerStatuses"] = containers(p, false, func(string) object {
			return object{"terminated": object{"exitCode": int64(code), "reason": why, "startedAt": text(status, "startTime"), "finishedAt": timestamp(c.Now())}}
		})
	})
}

const evictedMessage = "The node was low on resource: memory."

// endUnstarted has a pod that is deleted before it ran end as failed. Containers that
// the kubelet had taken up have a code all the same.
func (c *Cluster) endUnstarted(p *pod) {
	c.setPodStatus(byKubelet, p, func(status object) {
		status["phase"] = string(corev1.PodFailed)
		if list(status, "containerStatuses") != nil {
			status["containerStatuses"] = containers(p, false, func(string) object {
				return object{"terminated": object{
					"exitCode": int64(137), "reason": "ContainerStatusUnknown", "message": "The container could not be located when the pod was terminated",
				}}
			})
		}
	})
}

// remove lets a deleted pod go, now that nothing of it is left. With a finalizer it
// stays, and the kubelet has done its part.
func (c *Cluster) remove(p *pod, does func(string, func())) {
	if p.grace() > 0 {
		does("remove", func() { c.deletePod(byKubelet, p, 0) })
	}
}

// kubeletNext is when a grace period, a refresh or a slow start is over.
func (c *Cluster) kubeletNext() (soonest time.Time) {
	later := func(t time.Time) {
		if t.After(c.Now()) {
			soonest = event.Soonest(soonest, t)
		}
	}
	for i := range c.processes {
		r := &c.processes[i]
		if c.lost(r.node) != nil {
			continue
		}
		later(r.slowUntil)
		if !r.started {
			continue
		}
		if _, exited, _ := c.Workers.State(r.uid); exited {
			continue
		}
		if !r.killAt.IsZero() {
			later(r.killAt)
			continue
		}
		if o := c.API.Get("Pod", r.namespace, r.name); o != nil && o.UID == r.uid {
			if c.document(r.namespace, r.volume) != r.control {
				later(r.syncedAt.Add(refreshPeriod))
			}
		}
	}
	return soonest
}
