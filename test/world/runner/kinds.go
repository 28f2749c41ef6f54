package runner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/metacontroller/manifests"
)

// kind is an index of kinds: what an instance watches.
type kind int

// The kinds that are watched: parents, children in the order of the manifest, and
// related objects.
const (
	parents kind = iota
	workloads
	jobSets
	configMaps
	jobs
	pods
	localQueues
	clusterQueues
	resourceFlavors
	priorityClasses
	kindCount
)

// watched says what the API server knows of the kinds.
var watched = [kindCount]plan.Kind{
	parents:         of("training.rtj.dev", "v1beta1", v1beta1.Resource, v1beta1.Kind),
	workloads:       of("kueue.x-k8s.io", "v1beta2", "workloads", "Workload"),
	jobSets:         of("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
	configMaps:      of("", "v1", "configmaps", "ConfigMap"),
	jobs:            of("batch", "v1", "jobs", "Job"),
	pods:            of("", "v1", "pods", "Pod"),
	localQueues:     of("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue"),
	clusterQueues:   clusterScoped(of("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue")),
	resourceFlavors: clusterScoped(of("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor")),
	priorityClasses: clusterScoped(of("kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass")),
}

func of(group, version, resource, kind string) plan.Kind {
	return plan.Kind{
		Resource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
		Kind:     kind, Namespaced: true, HasStatus: kind != "ConfigMap",
	}
}

func clusterScoped(k plan.Kind) plan.Kind {
	k.Namespaced = false
	return k
}

// name is the kind as the API server of the world knows it.
func (k kind) name() string { return watched[k].Kind }

// Kinds are those of the objects that the events of an instance depend on.
var Kinds = func() (names []string) {
	for k := range kindCount {
		names = append(names, k.name())
	}
	return names
}()

// byResource finds the kind of a resource.
func byResource(resource string) (kind, bool) {
	for k := range watched {
		if watched[k].Resource.Resource == resource {
			return kind(k), true
		}
	}
	return 0, false
}

// byName finds the kind of that name.
func byName(name string) (kind, bool) {
	for k := range watched {
		if watched[k].Kind == name {
			return kind(k), true
		}
	}
	return 0, false
}

// childKind is the index of a kind of children; nil: of the parents.
func childKind(k *plan.ChildKind) kind {
	if k == nil {
		return parents
	}
	return workloads + kind(k.Rank)
}

// composite is RTJ's own CompositeController, as it is installed.
var composite, controller = func() (*applier.CompositeController, *plan.Controller) {
	list, err := applier.Parse(manifests.CompositeController)
	if err != nil {
		panic(err)
	}
	c, err := list[0].Plan(func(r applier.Resource) (plan.Kind, error) {
		k, ok := byResource(r.Resource)
		if !ok || watched[k].Resource.GroupVersion().String() != r.APIVersion {
			return plan.Kind{}, fmt.Errorf("the world has no %s of %s", r.Resource, r.APIVersion)
		}
		return watched[k], nil
	})
	if err != nil {
		panic(err)
	}
	for _, child := range c.Children {
		if watched[childKind(child)].Kind != child.Kind.Kind {
			panic("children in another order: " + child.Key())
		}
	}
	return list[0], c
}()
