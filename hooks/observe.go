package hooks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/contract"
)

// Observe decodes the objects of a request. Of each it decodes the fields that
// decisions read and keeps the whole as it was sent; objects of kinds that are
// not known are left out, and so are unknown fields. A field of the wrong type is
// a [*contract.Error] that names the object.
//
// The observation aliases the request. Its time, observer, catalog and launch
// probe are left for the caller to fill in.
func Observe(request *contract.SyncRequest) (*compose.Observation, error) {
	parent, err := decodeParent(request.Parent)
	if err != nil {
		return nil, err
	}
	o := &compose.Observation{Parent: parent}
	children := source{"children", request.Children}
	related := source{"related", request.Related}
	var controls []compose.ConfigMap
	err = cmp.Or(
		decodeKind(children, workloadKind, &o.Workloads, func(w *compose.Workload) *compose.Object { return &w.Object }),
		decodeKind(children, jobSetKind, &o.JobSets, func(j *compose.JobSet) *compose.Object { return &j.Object }),
		decodeKind(children, configMapKind, &controls, func(c *compose.ConfigMap) *compose.Object { return &c.Object }),
		decodeKind(related, jobKind, &o.Jobs, func(j *compose.Job) *compose.Object { return &j.Object }),
		decodeKind(related, podKind, &o.LeaderPods, func(p *compose.Pod) *compose.Object { return &p.Object }),
		decodeKind(related, localQueueKind, &o.LocalQueues, func(q *compose.LocalQueue) *compose.Object { return &q.Object }),
		decodeKind(related, clusterQueueKind, &o.ClusterQueues, func(q *compose.ClusterQueue) *compose.Object { return &q.Object }),
		decodeKind(related, resourceFlavorKind, &o.Flavors, func(f *compose.ResourceFlavor) *compose.Object { return &f.Object }),
		decodeKind(related, priorityClassKind, &o.PriorityClasses, func(p *compose.PriorityClass) *compose.Object { return &p.Object }),
	)
	if err != nil {
		return nil, err
	}
	for i := range controls {
		if controls[i].Meta.Name == parent.Name+"-control" {
			o.Control = &controls[i]
		}
	}
	return o, nil
}

// decodeParent decodes the job. Fields that this version does not know are
// ignored: the API server keeps them.
func decodeParent(raw json.RawMessage) (*v1beta1.ResumableTrainingJob, error) {
	parent := &v1beta1.ResumableTrainingJob{}
	if err := decode(raw, parent); err != nil {
		return nil, &contract.Error{Field: "parent", Reason: err.Error()}
	}
	if parent.Kind != v1beta1.Kind || parent.APIVersion != parentVersion {
		return nil, &contract.Error{Field: "parent", Reason: fmt.Sprintf("want %s of %s, got %q of %q", v1beta1.Kind, parentVersion, parent.Kind, parent.APIVersion)}
	}
	for _, required := range []struct{ field, value string }{
		{"name", parent.Name}, {"namespace", parent.Namespace}, {"uid", string(parent.UID)},
	} {
		if required.value == "" {
			return nil, &contract.Error{Field: "parent.metadata." + required.field, Reason: "missing"}
		}
	}
	return parent, nil
}

// source is one of the two maps of objects in a request.
type source struct {
	field   string
	objects contract.ObjectMap
}

// decodeKind decodes the objects of one kind, in the order of their keys.
func decodeKind[T any](from source, kind string, into *[]T, common func(*T) *compose.Object) error {
	objects := from.objects[kind]
	if len(objects) == 0 {
		return nil
	}
	list := make([]T, 0, len(objects))
	for place, raw := range from.objects.Kind(kind) {
		list = append(list, *new(T))
		object := &list[len(list)-1]
		err := decode(raw, object)
		if err == nil {
			err = checkPlace(place, &common(object).Meta)
		}
		if err != nil {
			return &contract.Error{Field: from.field + "[" + strconv.Quote(kind) + "][" + strconv.Quote(place) + "]", Reason: err.Error()}
		}
		common(object).Raw = raw
	}
	*into = list
	return nil
}

// checkPlace refuses an object that is not the one that its key names.
func checkPlace(place string, m *compose.Meta) error {
	switch {
	case m.Name == "":
		return errors.New("metadata.name: missing")
	case place != contract.ObjectKey(m.Namespace, m.Name):
		return fmt.Errorf("is %s by its metadata; hooks are called in version v2, in which keys are namespace/name", contract.ObjectKey(m.Namespace, m.Name))
	}
	return nil
}
