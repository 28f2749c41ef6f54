package kueue

import (
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rtj.dev/rtj/test/world/apiserver"
)

// admission has the API server refuse what the CRDs and webhooks of Kueue refuse.
func admission(api *apiserver.Server) {
	api.Admit("Workload", func(old, now *apiserver.Object) error {
		if now == nil {
			return nil
		}
		errs := validateWorkload(old, now)
		if old != nil {
			errs = append(errs, validateUpdate(old, now)...)
		}
		return invalid(now, errs)
	})
	api.Admit("LocalQueue", func(old, now *apiserver.Object) error {
		if old != nil && now != nil && old.Text("spec", "clusterQueue") != now.Text("spec", "clusterQueue") {
			return invalid(now, field.ErrorList{immutable(field.NewPath("spec", "clusterQueue"))})
		}
		return nil
	})
}

func invalid(o *apiserver.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: workloadGroup, Kind: o.Kind}, o.Name, errs)
}

func immutable(path *field.Path) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, "field is immutable")
}

// unchanged: only what differs from the version before is looked at again.
func unchanged(old, now *apiserver.Object, key string) bool {
	if old == nil {
		return false
	}
	a, aOK := old.At(key).(map[string]any)
	b, bOK := now.At(key).(map[string]any)
	return aOK == bOK && (!aOK || apiserver.Same(a, b))
}

func validateWorkload(old, now *apiserver.Object) (errs field.ErrorList) {
	if old == nil || old.Generation != now.Generation {
		errs = append(errs, validateSpec(now)...)
	}
	if unchanged(old, now, "status") {
		return errs
	}
	if now.True(quotaReserved) {
		errs = append(errs, validateAdmission(old, now)...)
	}
	for i, c := range objects(now.At("status", "conditions")) {
		path := field.NewPath("status", "conditions").Index(i)
		for _, key := range []string{"type", "status", "reason", "lastTransitionTime"} {
			if text, _ := c[key].(string); text == "" {
				errs = append(errs, field.Required(path.Child(key), "must be set"))
			}
		}
	}
	return errs
}

func validateSpec(o *apiserver.Object) (errs field.ErrorList) {
	path := field.NewPath("spec", "podSets")
	sets := demandOf(o)
	if len(sets) < 1 || len(sets) > 8 {
		errs = append(errs, field.Invalid(path, len(sets), "must have between 1 and 8 items"))
	}
	variable := 0
	names := map[string]bool{}
	for i, item := range objects(o.At("spec", "podSets")) {
		set := sets[i]
		if why := validation.IsDNS1123Label(set.name); len(why) > 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), set.name, why[0]))
		}
		if names[set.name] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), set.name))
		}
		names[set.name] = true
		if set.count < 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("count"), set.count, "must be at least 0"))
		}
		if _, ok := item["minCount"]; ok {
			variable++
			if set.minCount < 1 || set.minCount > set.count {
				errs = append(errs, field.Invalid(path.Index(i).Child("minCount"), set.minCount, "minCount should be positive and less or equal to count"))
			}
		}
		if set.requests["pods"] != 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("template"), "pods", "the key is reserved for internal kueue use"))
		}
	}
	if variable > 1 {
		errs = append(errs, field.Invalid(path, variable, "at most one podSet can use minCount"))
	}
	if o.At("spec", "priorityClassRef") != nil && o.At("spec", "priority") == nil {
		errs = append(errs, field.Invalid(field.NewPath("spec"), field.OmitValueType{}, "priority should not be nil when priorityClassRef is set"))
	}
	return errs
}

// validateAdmission: a reservation has an admission, of the podSets that there are.
func validateAdmission(old, now *apiserver.Object) (errs field.ErrorList) {
	path := field.NewPath("status", "admission")
	if now.At("status", "admission") == nil {
		if old != nil && old.True(quotaReserved) && old.At("status", "admission") == nil {
			return nil
		}
		return field.ErrorList{field.Required(path, "must be set while the QuotaReserved condition is true")}
	}
	sets := demandOf(now)
	names := map[string]bool{}
	for _, set := range sets {
		names[set.name] = true
	}
	given := objects(now.At("status", "admission", "podSetAssignments"))
	if len(given) != len(sets) {
		errs = append(errs, field.Invalid(path, len(given), "podSetAssignments must have the same number of podSets as the spec"))
	}
	for i, a := range given {
		name, _ := a["name"].(string)
		if !names[name] {
			errs = append(errs, field.NotFound(path.Child("podSetAssignments").Index(i).Child("name"), name))
		}
	}
	return errs
}

func validateUpdate(old, now *apiserver.Object) (errs field.ErrorList) {
	was, is := old.True(quotaReserved), now.True(quotaReserved)
	if was && old.Generation != now.Generation {
		errs = append(errs, validateReservedSpec(old, now)...)
		if is && old.Text("spec", "queueName") != now.Text("spec", "queueName") {
			errs = append(errs, field.Invalid(field.NewPath("spec", "queueName"), now.Text("spec", "queueName"), "queueName is immutable while workload quota reserved"))
		}
	}
	if old.True(admitted) && now.True(admitted) && old.Int("spec", "maximumExecutionTimeSeconds") != now.Int("spec", "maximumExecutionTimeSeconds") {
		errs = append(errs, immutable(field.NewPath("spec", "maximumExecutionTimeSeconds")))
	}
	a, b := old.At("status", "admission"), now.At("status", "admission")
	if a != nil && b != nil && !apiserver.Same(withoutTopology(a), withoutTopology(b)) {
		errs = append(errs, immutable(field.NewPath("status", "admission")))
	}
	for i, c := range objects(old.At("status", "admissionChecks")) {
		for _, d := range objects(now.At("status", "admissionChecks")) {
			if c["name"] == d["name"] && c["state"] == checkReady && d["state"] == checkReady && !apiserver.Same(c["podSetUpdates"], d["podSetUpdates"]) {
				errs = append(errs, immutable(field.NewPath("status", "admissionChecks").Index(i).Child("podSetUpdates")))
			}
		}
	}
	if gate := now.Annotation(gateAnnotation); gate != "" && old.Annotation(gateAnnotation) == "" {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(gateAnnotation), "can be set at creation only"))
	}
	return errs
}

// validateReservedSpec: while quota is reserved podSets only shrink, and the priority
// class neither comes nor goes.
func validateReservedSpec(old, now *apiserver.Object) (errs field.ErrorList) {
	path := field.NewPath("spec", "podSets")
	a, b := objects(old.At("spec", "podSets")), objects(now.At("spec", "podSets"))
	if len(a) != len(b) {
		errs = append(errs, immutable(path))
	}
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if demandOf(now)[i].count < demandOf(old)[i].count {
			y = maps.Clone(y)
			y["count"] = x["count"]
		}
		if !apiserver.Same(x, y) {
			errs = append(errs, immutable(path.Index(i)))
		}
	}
	path = field.NewPath("spec", "priorityClassRef")
	ref, next := old.At("spec", "priorityClassRef"), now.At("spec", "priorityClassRef")
	if (ref == nil) != (next == nil) {
		return append(errs, field.Invalid(path, next, "priorityClassRef is immutable while workload quota reserved"))
	}
	for _, key := range []string{"group", "kind"} {
		if was, is := old.Text("spec", "priorityClassRef", key), now.Text("spec", "priorityClassRef", key); was != is {
			errs = append(errs, field.Invalid(path.Child(key), is, fmt.Sprintf("priorityClassRef.%s is immutable while workload quota reserved", key)))
		}
	}
	if next != nil && now.Text("spec", "priorityClassRef", "kind") == "PriorityClass" && !apiserver.Same(ref, next) {
		errs = append(errs, field.Invalid(path.Child("name"), field.OmitValueType{}, "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"))
	}
	return errs
}

// withoutTopology is the admission without what may be set later.
func withoutTopology(admission any) any {
	a, _ := admission.(map[string]any)
	a = maps.Clone(a)
	var list []any
	for _, set := range objects(a["podSetAssignments"]) {
		set = maps.Clone(set)
		delete(set, "topologyAssignment")
		delete(set, "delayedTopologyRequest")
		list = append(list, any(set))
	}
	a["podSetAssignments"] = list
	return a
}
