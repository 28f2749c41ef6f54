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
	parent, err := DecodeParent(request.Parent)
	if err != nil {
		return nil, err
	}
	o := &compose.Observation{Parent: parent}
	children := source{"children", request.Children}
	related := source{"related", request.Related}
	var controls []compose.ConfigMap
	err = cmp.Or(
		decodeKind(children, Workloads, &o.Workloads),
		decodeKind(children, JobSets, &o.JobSets),
		decodeKind(children, ConfigMaps, &controls),
		decodeKind(related, Jobs, &o.Jobs),
		decodeKind(related, Pods, &o.LeaderPods),
		decodeKind(related, LocalQueues, &o.LocalQueues),
		decodeKind(related, ClusterQueues, &o.ClusterQueues),
		decodeKind(related, ResourceFlavors, &o.Flavors),
		decodeKind(related, PriorityClasses, &o.PriorityClasses),
	)
	if err != nil {
		return nil, err
	}
	for i := range controls {
		if IsControl(parent, &controls[i]) {
			o.Control = &controls[i]
		}
	}
	return o, nil
}

// IsControl tells whether a ConfigMap is the control document of a job.
func IsControl(parent *v1beta1.ResumableTrainingJob, c *compose.ConfigMap) bool {
	return c.Meta.Name == parent.Name+"-control"
}

// DecodeParent decodes the job. Fields that this version does not know are
// ignored: the API server keeps them.
func DecodeParent(raw json.RawMessage) (*v1beta1.ResumableTrainingJob, error) {
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
func decodeKind[T any](from source, kind Kind[T], into *[]T) error {
	objects := from.objects[kind.Key]
	if len(objects) == 0 {
		return nil
	}
	list := make([]T, 0, len(objects))
	for place, raw := range from.objects.Kind(kind.Key) {
		list = append(list, *new(T))
		object := &list[len(list)-1]
		err := kind.Decode(raw, object)
		if err == nil {
			err = checkPlace(place, &kind.common(object).Meta)
		}
		if err != nil {
			return &contract.Error{Field: from.field + "[" + strconv.Quote(kind.Key) + "][" + strconv.Quote(place) + "]", Reason: err.Error()}
		}
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
