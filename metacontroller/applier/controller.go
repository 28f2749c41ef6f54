package applier

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// Plan returns the controller as decisions read it. Find says what the API server
// knows of a resource. It returns an error if the controller does not fit that.
func (c *CompositeController) Plan(find func(Resource) (plan.Kind, error)) (*plan.Controller, error) {
	name := controllerKind + " " + c.Name
	parent, err := find(c.Spec.ParentResource.Resource)
	if err != nil {
		return nil, fmt.Errorf("%s: spec.parentResource: %w", name, err)
	}
	if !parent.HasStatus {
		return nil, fmt.Errorf("%s: spec.parentResource: %s has no status subresource; without it every status write would look like a change of the parent", name, c.Spec.ParentResource.Resource.Resource)
	}
	selector, err := c.parentSelector()
	if err != nil {
		return nil, err
	}
	ignore := c.Spec.ParentResource.IgnoreStatusChanges
	p := &plan.Controller{
		Parent:               parent,
		Finalizer:            c.Finalizer(),
		Selector:             selector,
		GeneratesSelector:    c.generatesSelector(),
		Complete:             c.childrenAreComplete(),
		IgnoresStatusChanges: ignore != nil && *ignore,
		Syncs:                c.Spec.Hooks.Sync != nil,
		Finalizes:            c.Spec.Hooks.Finalize != nil,
	}
	decidesStatus, metadataOnly := c.listed(ChildStatusAnnotation), c.listed(MetadataOnlyAnnotation)
	var faults []error
	for i, child := range c.Spec.ChildResources {
		k, err := find(child.Resource)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: spec.childResources[%d]: %w", name, i, err))
			continue
		case !k.Namespaced && parent.Namespaced:
			faults = append(faults, fmt.Errorf("%s: spec.childResources[%d]: %s are cluster-scoped, and parents in a namespace cannot own them", name, i, child.Resource.Resource))
			continue
		case decidesStatus[child.groupResource()] && !k.HasStatus:
			faults = append(faults, fmt.Errorf("%s: metadata.annotations[%s]: %s has no status subresource", name, ChildStatusAnnotation, child.groupResource()))
			continue
		}
		k.MetadataOnly = metadataOnly[child.groupResource()]
		p.Children = append(p.Children, &plan.ChildKind{Kind: k, Method: child.method(), DecidesStatus: decidesStatus[child.groupResource()], Rank: i})
	}
	return p, errors.Join(faults...)
}

// parentSelector selects the parents that are synced.
func (c *CompositeController) parentSelector() (labels.Selector, error) {
	s := c.Spec.ParentResource.LabelSelector
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}
