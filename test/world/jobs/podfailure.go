package jobs

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
)

// verdict is what the podFailurePolicy says of a pod that failed.
type verdict struct {
	// message is why the Job fails; empty: it does not by this pod.
	message string
	// ignored: the failure does not count.
	ignored bool
}

// judge matches the rules in their order; the first that matches decides.
func (j *job) judge(p *pod) verdict {
	for i, item := range j.rules {
		rule, _ := item.(object)
		action := text(rule, "action")
		var message string
		switch {
		case rule["onExitCodes"] != nil:
			container, code, ok := exitMatches(p, below(rule, "onExitCodes"))
			if !ok {
				continue
			}
			message = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d matching %s rule at index %d", container, p.Namespace, p.Name, code, action, i)
		case rule["onPodConditions"] != nil:
			kind, ok := conditionMatches(p, list(rule, "onPodConditions"))
			if !ok {
				continue
			}
			message = fmt.Sprintf("Pod %s/%s has condition %s matching %s rule at index %d", p.Namespace, p.Name, kind, action, i)
		default:
			continue
		}
		switch batchv1.PodFailurePolicyAction(action) {
		case batchv1.PodFailurePolicyActionFailJob:
			return verdict{message: message}
		case batchv1.PodFailurePolicyActionIgnore:
			return verdict{ignored: true}
		}
		return verdict{}
	}
	return verdict{}
}

// exitMatches returns the first container that ended with a code that the rule asks
// for; 0 never matches.
func exitMatches(p *pod, rule object) (container string, code int64, ok bool) {
	var values []int64
	for _, item := range list(rule, "values") {
		n, _ := item.(int64)
		values = append(values, n)
	}
	in := text(rule, "operator") == string(batchv1.PodFailurePolicyOnExitCodesOpIn)
	for _, statuses := range [][]any{p.List("status", "containerStatuses"), p.List("status", "initContainerStatuses")} {
		for _, item := range statuses {
			status, _ := item.(object)
			ended := below(status, "state", "terminated")
			if ended == nil {
				continue
			}
			container, code := text(status, "name"), number(ended, 0, "exitCode")
			if only := text(rule, "containerName"); only != "" && only != container || code == 0 {
				continue
			}
			if slices.Contains(values, code) == in {
				return container, code, true
			}
		}
	}
	return "", 0, false
}

func conditionMatches(p *pod, patterns []any) (kind string, ok bool) {
	for _, item := range p.List("status", "conditions") {
		condition, _ := item.(object)
		for _, item := range patterns {
			pattern, _ := item.(object)
			if condition["type"] == pattern["type"] && condition["status"] == pattern["status"] {
				return text(condition, "type"), true
			}
		}
	}
	return "", false
}

// podFailed as the Job controller sees it: with a podFailurePolicy, or where only
// failed pods are replaced, a deleted pod counts once it has ended.
func (j *job) podFailed(p *pod) bool {
	if p.phase == "Failed" {
		return true
	}
	return !j.replacesOnlyFailed && p.deleting && p.phase != "Succeeded"
}
