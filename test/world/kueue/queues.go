package kueue

import (
	"fmt"
	"slices"
	"strings"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// finalizer keeps a ClusterQueue for as long as quota of it is held.
const finalizer = "kueue.x-k8s.io/resource-in-use"

const activeCondition = "Active"

// queueActive reports whether a ClusterQueue admits anything.
func (k *Kueue) queueActive(cluster *apiserver.Object) bool {
	reason, _ := k.readiness(cluster)
	return reason == "Ready"
}

// readiness is the reason and message of condition Active.
func (k *Kueue) readiness(cluster *apiserver.Object) (reason, message string) {
	if cluster.Deleting() {
		return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
	}
	var reasons, messages []string
	if stopped(cluster) {
		reasons, messages = append(reasons, "Stopped"), append(messages, "is stopped")
	}
	q := quotaOf(cluster)
	var missing []string
	for _, name := range q.flavorNames() {
		if k.flavor(name) == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		reasons = append(reasons, "FlavorNotFound")
		messages = append(messages, fmt.Sprintf("references missing ResourceFlavor(s): %s", strings.Join(missing, ",")))
	}
	missing = nil
	var inactive []string
	for _, check := range q.checks {
		switch i := slices.IndexFunc(k.checks, func(o *apiserver.Object) bool { return o.Name == check.name }); {
		case i < 0:
			missing = append(missing, check.name)
		case !k.checks[i].True(activeCondition):
			inactive = append(inactive, check.name)
		}
	}
	if len(missing) > 0 {
		reasons = append(reasons, "AdmissionCheckNotFound")
		messages = append(messages, fmt.Sprintf("references missing AdmissionCheck(s): %s", strings.Join(missing, ",")))
	}
	if len(inactive) > 0 {
		reasons = append(reasons, "AdmissionCheckInactive")
		messages = append(messages, fmt.Sprintf("references inactive AdmissionCheck(s): %s", strings.Join(inactive, ",")))
	}
	if len(reasons) == 0 {
		return "Ready", "Can admit new workloads"
	}
	return reasons[0], fmt.Sprintf("Can't admit new workloads: %s.", strings.Join(messages, ", "))
}

// queueEvents are what the controllers of ClusterQueues and LocalQueues write.
func (k *Kueue) queueEvents(add func(event.Event)) {
	for i := range k.queues {
		if o := k.queues[i].seen; k.clusterQueueDue(o) {
			add(event.Event{Name: "kueue: reconcile ClusterQueue " + o.Name, Do: func() { k.reconcileClusterQueue(o.Name) }})
		}
	}
	for _, o := range k.API.List("LocalQueue") {
		if k.localQueueDue(o) {
			add(event.Event{Name: "kueue: reconcile LocalQueue " + o.Key(), Do: func() { k.reconcileLocalQueue(o.Namespace, o.Name) }})
		}
	}
}

func (k *Kueue) clusterQueueDue(o *apiserver.Object) bool {
	if o.Deleting() && len(k.held(o.Name)) == 0 {
		return slices.Contains(o.Finalizers(), finalizer)
	}
	reason, message := k.readiness(o)
	return !o.Deleting() && !slices.Contains(o.Finalizers(), finalizer) || !isActive(o, reason, message)
}

func isActive(o *apiserver.Object, reason, message string) bool {
	c := o.Condition(activeCondition)
	return c["reason"] == reason && c["message"] == message && generationOf(c) == o.Generation
}

func (k *Kueue) reconcileClusterQueue(name string) {
	k.observe()
	o := k.API.Get("ClusterQueue", "", name)
	if o == nil || !k.clusterQueueDue(o) {
		return
	}
	has := slices.Contains(o.Finalizers(), finalizer)
	switch {
	case o.Deleting() && has && len(k.held(name)) == 0:
		_, _ = k.API.Update(by, o, "", func(body map[string]any) {
			meta := below(body, "metadata")
			list, _ := meta["finalizers"].([]any)
			meta["finalizers"] = slices.DeleteFunc(list, func(f any) bool { return f == finalizer })
		})
		return
	case !o.Deleting() && !has:
		next, err := k.API.Update(by, o, "", func(body map[string]any) {
			meta := below(body, "metadata")
			list, _ := meta["finalizers"].([]any)
			meta["finalizers"] = append(list, finalizer)
		})
		if err != nil {
			return
		}
		o = next
	}
	reason, message := k.readiness(o)
	k.setActive(o, reason == "Ready", reason, message)
}

func (k *Kueue) setActive(o *apiserver.Object, is bool, reason, message string) {
	value := "False"
	if is {
		value = "True"
	}
	_, _ = k.API.Update(by, o, apiserver.Status, func(body map[string]any) {
		s := &status{now: k.Now(), body: below(body, "status")}
		s.set(activeCondition, value, reason, message, o.Generation)
	})
}

// localReadiness follows the ClusterQueue's condition.
func (k *Kueue) localReadiness(o *apiserver.Object) (is bool, reason, message string) {
	cluster := k.API.Get("ClusterQueue", "", o.Text("spec", "clusterQueue"))
	switch {
	case stopped(o):
		return false, "Stopped", "LocalQueue is stopped"
	case cluster == nil:
		return false, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
	case !cluster.True(activeCondition):
		return false, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
	}
	return true, "Ready", "Can submit new workloads to localQueue"
}

func (k *Kueue) localQueueDue(o *apiserver.Object) bool {
	_, reason, message := k.localReadiness(o)
	return !isActive(o, reason, message)
}

func (k *Kueue) reconcileLocalQueue(namespace, name string) {
	if o := k.API.Get("LocalQueue", namespace, name); o != nil && k.localQueueDue(o) {
		is, reason, message := k.localReadiness(o)
		k.setActive(o, is, reason, message)
	}
}
