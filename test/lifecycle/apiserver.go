package lifecycle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/patch"
	"rtj.dev/rtj/test/scenario"
)

// Submit implements hooks.Patcher: the patches are kept until the children and
// the status of the same decision are applied.
func (w *world) Submit(_ *v1beta1.ResumableTrainingJob, patches []compose.Patch) { w.patches = patches }

// DryRun implements hooks.Launcher.
func (w *world) DryRun(_ context.Context, _ *v1beta1.ResumableTrainingJob, child *compose.Child) (*compose.LaunchProbe, error) {
	return &compose.LaunchProbe{JobSet: child.Name, Refused: w.refusal}, nil
}

// resources are the kinds that patches write.
var resources = map[string]string{"workloads": "Workload", "pods": "Pod", v1beta1.Resource: v1beta1.Kind}

// carryOut makes one patch if its preconditions hold, as the patch writer and the
// API server do. It returns the object before and after.
func (w *world) carryOut(p compose.Patch) (patch.Result, object, object, error) {
	if p.StatusAttempt != nil {
		now, _ := below(w.parent, "status")["attempt"].(int64)
		if now != int64(*p.StatusAttempt) {
			return patch.Lost, nil, nil, nil
		}
	}
	if p.NoLivePods != nil {
		left, err := w.podsLeft(p.NoLivePods)
		if err != nil {
			return "", nil, nil, err
		}
		if left {
			return patch.PodsLeft, nil, nil, nil
		}
	}
	kind, ok := resources[p.Target.Resource]
	if !ok {
		return "", nil, nil, fmt.Errorf("patch %s: no scripted %s", p.Name, p.Target.Resource)
	}
	place := kind + "/" + p.Target.Name
	o := w.find(place)
	if o == nil {
		return patch.Lost, nil, nil, nil
	}
	body, err := scenario.Parse(p.Body)
	if err != nil {
		return "", nil, nil, err
	}
	for _, key := range []string{"resourceVersion", "uid"} {
		if want, ok := metadata(body)[key]; ok && want != metadata(o)[key] {
			return patch.Lost, nil, nil, nil
		}
	}
	before := copyOf(o)
	written := object{}
	if p.Target.Subresource == "status" {
		written["status"] = body["status"]
	} else {
		for key, value := range body {
			if key != "status" {
				written[key] = value
			}
		}
	}
	after := mergePatch(o, written)
	for key, value := range after {
		o[key] = value
	}
	w.touch(o)
	return patch.Done, before, o, nil
}

// mergePatch is RFC 7386, conditions included.
func mergePatch(o, body object) object {
	merged := object{}
	if o != nil {
		merged = copyOf(o)
	}
	for key, value := range body {
		switch v := value.(type) {
		case nil:
			delete(merged, key)
		case object:
			sub, _ := merged[key].(object)
			merged[key] = mergePatch(sub, v)
		default:
			merged[key] = v
		}
	}
	return merged
}

// find returns a child, a related object or the parent by Kind/name.
func (w *world) find(place string) object {
	if w.parent != nil && id(w.parent) == place {
		return w.parent
	}
	if o, ok := w.children[place]; ok {
		return o
	}
	return w.related[place]
}

// podsLeft is the LIST over the scripted pods.
func (w *world) podsLeft(condition *compose.NoLivePods) (bool, error) {
	byLabel, err := labels.Parse(condition.LabelSelector)
	if err != nil {
		return false, err
	}
	byField, err := fields.ParseSelector(condition.FieldSelector)
	if err != nil {
		return false, err
	}
	for _, o := range w.related {
		if o["kind"] != "Pod" {
			continue
		}
		set := labels.Set{}
		for key, value := range below(o, "metadata", "labels") {
			set[key] = fmt.Sprint(value)
		}
		phase := fields.Set{"status.phase": fmt.Sprint(below(o, "status")["phase"])}
		if byLabel.Matches(set) && byField.Matches(phase) {
			return true, nil
		}
	}
	return false, nil
}
