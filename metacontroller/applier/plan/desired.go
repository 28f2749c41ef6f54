package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/hooks/contract"
)

// Answer is what a hook answered.
type Answer struct {
	Children []Want
	// Status of the parent, without observedGeneration; it is taken over.
	Status map[string]any
	// SameStatus says that the status is the one that the parent was observed with;
	// Status is not looked at then.
	SameStatus         bool
	ResyncAfterSeconds float64
	Finalized          bool
}

// Want is one child that should exist.
type Want struct {
	// Place of the child. Without a namespace it is in its parent's.
	contract.Identity
	// Object as the hook returned it. The object itself, its metadata, labels and
	// annotations are taken over and modified; what is below is not.
	Object map[string]any
	// Same says that the child is as it was observed in all that hooks decide;
	// Object is not looked at then.
	Same bool
}

// AnswerOf decodes the answer of a hook, for a parent in a namespace. One that
// cannot be understood is refused.
func AnswerOf(response *contract.SyncResponse, namespace string) (*Answer, error) {
	identities, err := response.Identities(namespace)
	if err != nil {
		return nil, err
	}
	answer := &Answer{
		Children:           make([]Want, len(identities)),
		Status:             map[string]any{},
		ResyncAfterSeconds: response.ResyncAfterSeconds,
		Finalized:          response.Finalized,
	}
	for i, id := range identities {
		answer.Children[i].Identity = id
		if err := utiljson.Unmarshal(response.Children[i], &answer.Children[i].Object); err != nil {
			return nil, refusal(i, id, err)
		}
	}
	if !contract.IsNull(response.Status) {
		if err := utiljson.Unmarshal(response.Status, &answer.Status); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
	}
	return answer, nil
}

func refusal(i int, id contract.Identity, err error) error {
	return fmt.Errorf("children[%d]: %s: %w", i, id, err)
}

// Desired is a child as the hook wants it.
type Desired struct {
	Kind            *ChildKind
	Namespace, Name string
	// Object is what the hook returned, without status and system metadata, with
	// the label of a generated selector; nil: as it was observed.
	Object map[string]any
	// Status, where the hooks decide it and did.
	Status map[string]any
}

func (d *Desired) key() ChildKey { return ChildKey{d.Kind, d.Namespace, d.Name} }

func (d *Desired) String() string { return d.key().String() }

// Metadata that belongs to the API server or to this package.
var systemMetadata = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName",
}

// desiredChildren checks the children of an answer. One that cannot be accepted
// refuses the answer as a whole, before anything is written.
func (r *Round) desiredChildren(answer *Answer) ([]*Desired, error) {
	list := make([]*Desired, len(answer.Children))
	for i := range answer.Children {
		d, err := r.desiredChild(&answer.Children[i])
		if err != nil {
			return nil, refusal(i, answer.Children[i].Identity, err)
		}
		list[i] = d
	}
	return list, nil
}

func (r *Round) desiredChild(w *Want) (*Desired, error) {
	c := r.controller
	d := &Desired{Kind: c.childKind(w.APIVersion, w.Kind), Namespace: w.Namespace, Name: w.Name}
	switch {
	case d.Kind == nil:
		return nil, fmt.Errorf("kind not declared in childResources, which are %s", strings.Join(c.declared(), ", "))
	case !d.Kind.Namespaced && c.Parent.Namespaced:
		return nil, errors.New("cluster-scoped, and a parent in a namespace cannot own it")
	case !d.Kind.Namespaced:
		d.Namespace = ""
	case d.Namespace == "":
		return nil, errors.New("metadata.namespace is missing")
	case c.Parent.Namespaced && d.Namespace != r.Parent.GetNamespace():
		return nil, fmt.Errorf("in another namespace than its parent, which is in %s, and could not be owned by it", r.Parent.GetNamespace())
	}
	d.Object = w.Object
	if w.Same {
		observed, ok := r.Claimed[d.key()]
		switch {
		case !ok:
			return nil, errors.New("said to be as it was observed, which it was not")
		case c.Complete && !d.Kind.DecidesStatus && observed.GetLabels()[UIDLabel] != "" && r.selector.Matches(labels.Set(observed.GetLabels())):
			d.Object = nil
			return d, nil
		}
		d.Object = runtime.DeepCopyJSON(observed.Unstructured.Object)
	}
	return d, r.takeOver(d)
}

// takeOver makes what a hook returned what is compared and sent.
func (r *Round) takeOver(d *Desired) error {
	if status := d.Object["status"]; status != nil && d.Kind.DecidesStatus {
		if d.Status, _ = status.(map[string]any); d.Status == nil {
			return errors.New("status is not an object")
		}
	}
	delete(d.Object, "status")
	metadata, ok := d.Object["metadata"].(map[string]any)
	if !ok {
		return errors.New("metadata is not an object")
	}
	for _, key := range systemMetadata {
		delete(metadata, key)
	}
	if d.Namespace != "" {
		metadata["namespace"] = d.Namespace
	}
	for _, key := range []string{"labels", "annotations"} {
		if metadata[key] == nil {
			delete(metadata, key)
		}
	}
	if _, _, err := unstructured.NestedStringMap(d.Object, "metadata", "annotations"); err != nil {
		return err
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		for _, key := range lastApplied {
			delete(annotations, key)
		}
	}
	set, _, err := unstructured.NestedStringMap(d.Object, "metadata", "labels")
	if err != nil {
		return err
	}
	if r.controller.GeneratesSelector && set[UIDLabel] == "" {
		if set == nil {
			set = map[string]string{}
		}
		set[UIDLabel] = string(r.Parent.GetUID())
		if err := unstructured.SetNestedStringMap(d.Object, set, "metadata", "labels"); err != nil {
			return err
		}
	}
	if !r.selector.Matches(labels.Set(set)) {
		return fmt.Errorf("its labels do not match the parent's selector (%s), so it would be lost at once", r.selector)
	}
	return nil
}

// childKind returns the declared kind, or nil.
func (c *Controller) childKind(apiVersion, kind string) *ChildKind {
	for _, k := range c.Children {
		if k.Kind.Kind == kind && k.has(apiVersion) {
			return k
		}
	}
	return nil
}

func (c *Controller) declared() []string {
	kinds := map[string]bool{}
	for _, k := range c.Children {
		kinds[k.Key()] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}
