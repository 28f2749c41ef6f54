package plan

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
)

// UIDLabel tells whose child an object is, where the selector is generated.
const UIDLabel = "controller-uid"

// UpdateMethod says what happens to a child that exists and differs from what the
// hook returned.
type UpdateMethod string

const (
	// OnDelete leaves the child alone until someone deletes it.
	OnDelete UpdateMethod = "OnDelete"
	// InPlace updates the child.
	InPlace UpdateMethod = "InPlace"
	// Recreate deletes the child; a later sync creates it anew.
	Recreate UpdateMethod = "Recreate"
)

// Kind is what the API server says about one resource.
type Kind struct {
	Resource   schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// HasStatus says that status is a subresource.
	HasStatus bool
	// MetadataOnly says that no bodies of the kind are observed.
	MetadataOnly bool
}

// GVK returns group, version and kind.
func (k Kind) GVK() schema.GroupVersionKind { return k.Resource.GroupVersion().WithKind(k.Kind) }

// Key is the kind as hooks write it.
func (k Kind) Key() string { return contract.KindKeyOf(k.GVK()) }

// has tells whether objects of the kind have that apiVersion. It makes no text.
func (k Kind) has(apiVersion string) bool {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	return group == k.Resource.Group && version == k.Resource.Version
}

// ChildKind is a kind that the hooks may return children of.
type ChildKind struct {
	Kind
	Method UpdateMethod
	// DecidesStatus says that the hooks decide the status too.
	DecidesStatus bool
	// Rank is the place among spec.childResources.
	Rank int
}

// ChildKey is the place of a child.
type ChildKey struct {
	Kind            *ChildKind
	Namespace, Name string
}

func (k ChildKey) String() string {
	return k.Kind.Key() + " " + contract.ObjectKey(k.Namespace, k.Name)
}

// Child is one that is observed.
type Child struct {
	Kind *ChildKind
	*Object
}

// Key is the place of the child.
func (c Child) Key() ChildKey { return ChildKey{c.Kind, c.GetNamespace(), c.GetName()} }

func (c Child) String() string { return c.Key().String() }

// Controller is a CompositeController as decisions read it. It does not change.
type Controller struct {
	Parent   Kind
	Children []*ChildKind
	// Finalizer is what parents get while there is a finalize hook.
	Finalizer string
	// Selector restricts which parents are synced.
	Selector labels.Selector
	// GeneratesSelector says that the label [UIDLabel] tells which children are
	// whose; else the parent has a spec.selector.
	GeneratesSelector bool
	// Complete says that hooks return children that exist whole; else partial.
	Complete bool
	// IgnoresStatusChanges leaves out syncs for changes of the parent's status.
	IgnoresStatusChanges bool
	// Syncs and Finalizes say which hooks there are.
	Syncs, Finalizes bool
}

// SelectorOf returns which labels make an object a child of parent.
func (c *Controller) SelectorOf(parent *Object) (labels.Selector, error) {
	if c.GeneratesSelector {
		return labels.SelectorFromSet(labels.Set{UIDLabel: string(parent.GetUID())}), nil
	}
	field, found, err := unstructured.NestedMap(parent.Object, "spec", "selector")
	if err != nil || !found || len(field) == 0 {
		return nil, errors.New("spec.selector is missing or empty: it says which objects are children, unless the controller generates it (generateSelector)")
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(field, &selector); err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil, errors.New("spec.selector is empty: it would select every object")
	}
	return metav1.LabelSelectorAsSelector(&selector)
}

// OwnedBy returns which parent an owner reference means, if it is one of ours.
func (c *Controller) OwnedBy(reference *metav1.OwnerReference, namespace string) (types.NamespacedName, bool) {
	if reference == nil || reference.Kind != c.Parent.Kind || groupOf(reference.APIVersion) != c.Parent.Resource.Group {
		return types.NamespacedName{}, false
	}
	key := types.NamespacedName{Name: reference.Name}
	if c.Parent.Namespaced {
		key.Namespace = namespace
	}
	return key, true
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}

// ownerReference makes parent control an object.
func ownerReference(parent *Object) map[string]any {
	return map[string]any{
		"apiVersion":         parent.GetAPIVersion(),
		"kind":               parent.GetKind(),
		"name":               parent.GetName(),
		"uid":                string(parent.GetUID()),
		"controller":         true,
		"blockOwnerDeletion": true,
	}
}
