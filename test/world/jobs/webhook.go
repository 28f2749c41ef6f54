package jobs

import (
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rtj.dev/rtj/test/world/apiserver"
)

// admission has the API server set the defaults and validate as JobSet's webhooks and
// CRD do, and count against ResourceQuotas.
func admission(s *apiserver.Server) {
	s.Default("JobSet", defaultJobSet)
	s.Default("Pod", func(body object) object { return with(body, object{"status": object{"phase": "Pending"}}) })
	s.Admit("JobSet", validateJobSet)
	for _, kind := range []string{"JobSet", "Job", "Pod"} {
		s.AdmitBy(kind, func(s *apiserver.Server, old, new *apiserver.Object) error {
			if old != nil {
				return nil
			}
			return exceeds(s, kind, new.Namespace, new.Name, 0)
		})
	}
}

func defaultJobSet(body object) object {
	spec := with(object{
		"successPolicy": object{"operator": "All"},
		"startupPolicy": object{"startupPolicyOrder": "AnyOrder"},
	}, below(body, "spec"))
	spec["network"] = with(object{"enableDNSHostnames": true, "publishNotReadyAddresses": true}, below(spec, "network"))
	replicated := slices.Clone(list(spec, "replicatedJobs"))
	for i, item := range replicated {
		r := with(object{"replicas": int64(1), "groupName": "default"}, item.(object))
		template := with(below(r, "template"), nil)
		job := with(object{"completionMode": "Indexed"}, below(template, "spec"))
		pod := with(below(job, "template"), nil)
		pod["spec"] = with(object{"restartPolicy": "OnFailure"}, below(pod, "spec"))
		job["template"], template["spec"], r["template"] = pod, job, template
		replicated[i] = r
	}
	spec["replicatedJobs"] = replicated
	return with(body, object{"spec": spec})
}

func validateJobSet(old, new *apiserver.Object) error {
	var errs field.ErrorList
	switch {
	case new == nil:
		return nil
	case old == nil:
		errs = creatable(jobSetOf(new))
	default:
		errs = changeable(old, new)
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}, new.Name, errs)
}

// creatable bounds the names of Jobs and pods, which are labels of DNS, and has
// policies name replicatedJobs that are there.
func creatable(s *jobSet) (errs field.ErrorList) {
	var names []string
	for i, r := range s.replicated {
		names = append(names, r.name)
		path := field.NewPath("spec", "replicatedJobs").Index(i)
		name := jobName(s, r, max(r.replicas-1, 0))
		if len(validation.IsDNS1035Label(name)) > 0 {
			errs = append(errs, field.Invalid(path.Child("name"), name, "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"))
		}
		if n := number(r.template, -1, "spec", "completions"); n >= 0 && text(r.template, "spec", "completionMode") == "Indexed" {
			pod := fmt.Sprintf("%s-%d-abcde", name, max(n-1, 0))
			if len(validation.IsDNS1035Label(pod)) > 0 {
				errs = append(errs, field.Invalid(path.Child("name"), name, "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"))
			}
		}
		for _, item := range r.dependsOn {
			d, _ := item.(object)
			if i == 0 {
				errs = append(errs, field.Forbidden(path.Child("dependsOn"), "DependsOn can't be set for the first ReplicatedJob"))
			} else if name := text(d, "name"); !slices.Contains(names, name) {
				errs = append(errs, field.Invalid(path.Child("dependsOn"), name, fmt.Sprintf("replicatedJob: %s cannot depend on replicatedJob: %s", r.name, name)))
			}
		}
	}
	for _, name := range s.targets {
		if !slices.Contains(names, name) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "successPolicy"), name, "does not appear in .spec.ReplicatedJobs"))
		}
	}
	return errs
}

// immutable by the CRD's rules; the webhook has managedBy and replicatedJobs.
var immutable = []string{"network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies", "managedBy"}

// changeable: of the replicatedJobs only what Kueue injects into pod templates may
// change, and that while the JobSet is suspended or becomes so.
func changeable(old, new *apiserver.Object) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	for _, key := range immutable {
		was, is := old.At("spec", key), new.At("spec", key)
		// The rule of the CRD compares with what there was.
		if (was != nil || key == "managedBy") && is != nil && !reflect.DeepEqual(was, is) {
			errs = append(errs, field.Invalid(spec.Child(key), is, "Value is immutable"))
		}
	}
	was, is := old.List("spec", "replicatedJobs"), new.List("spec", "replicatedJobs")
	if len(was) > 0 && len(is) > 0 && &was[0] == &is[0] {
		return errs
	}
	if old.Bool("spec", "suspend") || new.Bool("spec", "suspend") {
		is = masked(is, was)
	}
	if !reflect.DeepEqual(was, is) {
		errs = append(errs, field.Invalid(spec.Child("replicatedJobs"), "...", "field is immutable"))
	}
	return errs
}

// masked returns the replicatedJobs with those fields as they were that may change
// while a JobSet is suspended.
func masked(is, was []any) []any {
	all := slices.Clone(is)
	for i, item := range is {
		r, _ := item.(object)
		at := slices.IndexFunc(was, func(item any) bool { o, _ := item.(object); return o["name"] == r["name"] })
		if at < 0 {
			continue
		}
		pod := below(was[at].(object), "template", "spec", "template")
		all[i] = set(set(r, below(pod, "metadata"), []string{"annotations", "labels"}, "template", "spec", "template", "metadata"),
			below(pod, "spec"), []string{"nodeSelector", "tolerations", "schedulingGates"}, "template", "spec", "template", "spec")
	}
	return all
}

// set returns a copy of an object in which, below the path, the keys are as they are
// in values.
func set(o, values object, keys []string, path ...string) object {
	c := with(o, nil)
	if len(path) > 0 {
		c[path[0]] = set(below(o, path[0]), values, keys, path[1:]...)
		return c
	}
	for _, key := range keys {
		if value, ok := values[key]; ok {
			c[key] = value
		} else {
			delete(c, key)
		}
	}
	return c
}
