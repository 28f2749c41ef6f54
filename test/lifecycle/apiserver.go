package lifecycle

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/patch"
	"rtj.dev/rtj/test/scenario"
	"rtj.dev/rtj/test/world/apiserver"
)

// byUs signs what the hooks decided.
const byUs = "rtj"

// Submit implements hooks.Patcher: the patches are kept until the children and
// the status of the same decision are applied.
func (w *world) Submit(_ *v1beta1.ResumableTrainingJob, patches []compose.Patch) { w.patches = patches }

// DryRun implements hooks.Launcher.
func (w *world) DryRun(_ context.Context, _ *v1beta1.ResumableTrainingJob, child *compose.Child) (*compose.LaunchProbe, error) {
	probe := &compose.LaunchProbe{JobSet: child.Name}
	body, err := child.Render()
	if err != nil {
		return nil, err
	}
	_, err = w.api.Clone(w.api.Now).Create(byUs, w.owned(body))
	switch {
	case apierrors.IsAlreadyExists(err):
		probe.Foreign = true
	case err != nil:
		probe.Refused = err.Error()
	}
	return probe, nil
}

// owned is a new child as an applier creates it.
func (w *world) owned(o object) object {
	job := w.job()
	o = copyOf(o)
	meta := metadata(o)
	meta["namespace"] = namespace
	below(meta, "labels")["controller-uid"] = job.UID
	meta["ownerReferences"] = []any{object{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": v1beta1.Kind, "name": job.Name, "uid": job.UID, "controller": true, "blockOwnerDeletion": true,
	}}
	return o
}

// resources are the kinds that patches write.
var resources = map[string]string{"workloads": "Workload", "pods": "Pod", v1beta1.Resource: v1beta1.Kind}

// carryOut makes one patch if its preconditions hold, as the patch writer and the
// API server do. It returns the object before and after.
func (w *world) carryOut(p compose.Patch) (patch.Result, *apiserver.Object, *apiserver.Object, error) {
	if p.StatusAttempt != nil && w.job().Int("status", "attempt") != int64(*p.StatusAttempt) {
		return patch.Lost, nil, nil, nil
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
		return "", nil, nil, fmt.Errorf("patch %s: of no kind that patches write: %s", p.Name, p.Target.Resource)
	}
	before := w.api.Get(kind, namespace, p.Target.Name)
	body, err := scenario.Parse(p.Body)
	if err != nil {
		return "", nil, nil, err
	}
	after, err := w.api.Patch(byUs, kind, namespace, p.Target.Name, body, p.Target.Subresource)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return patch.Lost, nil, nil, nil
	}
	return patch.Done, before, after, err
}

// podsLeft is the LIST.
func (w *world) podsLeft(condition *compose.NoLivePods) (bool, error) {
	byLabel, err := labels.Parse(condition.LabelSelector)
	if err != nil {
		return false, err
	}
	byField, err := fields.ParseSelector(condition.FieldSelector)
	if err != nil {
		return false, err
	}
	for _, o := range w.api.List("Pod") {
		set := labels.Set{}
		if all, ok := o.At("metadata", "labels").(object); ok {
			for key, value := range all {
				set[key] = fmt.Sprint(value)
			}
		}
		if byLabel.Matches(set) && byField.Matches(fields.Set{"status.phase": o.Text("status", "phase")}) {
			return true, nil
		}
	}
	return false, nil
}
