package jobs

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/test/world/apiserver"
)

// setPodStatus writes the status of a pod. change gets a copy of its fields, of
// which it may replace some.
func (c *Cluster) setPodStatus(by string, p *pod, change func(status object)) {
	status := with(below(p.Body, "status"), nil)
	change(status)
	_, _ = c.API.Patch(by, "Pod", p.Namespace, p.Name, object{"metadata": object{"uid": p.UID}, "status": status}, apiserver.Status)
}

// setPodCondition sets a condition of a pod.
func setPodCondition(status object, now time.Time, kind corev1.PodConditionType, value, reason, message string) {
	conditions := slices.Clone(list(status, "conditions"))
	next := object{"type": string(kind), "status": value, "lastProbeTime": nil, "lastTransitionTime": timestamp(now)}
	if reason != "" {
		next["reason"] = reason
	}
	if message != "" {
		next["message"] = message
	}
	i := slices.IndexFunc(conditions, func(item any) bool { return item.(object)["type"] == string(kind) })
	switch {
	case i < 0:
		conditions = append(conditions, next)
	default:
		if old := conditions[i].(object); old["status"] == value {
			next["lastTransitionTime"] = old["lastTransitionTime"]
		}
		conditions[i] = next
	}
	status["conditions"] = conditions
}

// disrupt says that a pod is ended by something else than its own processes.
func disrupt(status object, now time.Time, reason, message string) {
	setPodCondition(status, now, corev1.DisruptionTarget, "True", reason, message)
}

// setReady sets what says whether a pod serves.
func setReady(status object, now time.Time, ready bool, reason string) {
	value := map[bool]string{true: "True", false: "False"}[ready]
	setPodCondition(status, now, corev1.ContainersReady, value, reason, "")
	setPodCondition(status, now, corev1.PodReady, value, reason, "")
}

// containers has the status of each container be in a state.
func containers(p *pod, ready bool, state func(name string) object) []any {
	var all []any
	for i, item := range p.List("spec", "containers") {
		name := text(item.(object), "name")
		all = append(all, object{"name": name, "ready": ready, "restartCount": int64(0), "state": state(name), "image": text(p.List("spec", "containers")[i].(object), "image")})
	}
	return all
}
