package applier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"rtj.dev/rtj/hooks/contract"
)

// uidLabel tells whose child an object is, where the selector is generated.
const uidLabel = "controller-uid"

// childKind is a kind that the hooks may return children of.
type childKind struct {
	kind
	method UpdateMethod
	// decidesStatus says that the hooks decide the status too.
	decidesStatus bool
	// rank is the place among spec.childResources.
	rank  int
	cache *objects
}

// childKey is the place of a child: its kind, as hooks write it, and its key.
type childKey struct{ kind, object string }

func keyOfChild(kind *childKind, namespace, name string) childKey {
	return childKey{kind.key(), contract.ObjectKey(namespace, name)}
}

func (k childKey) String() string { return k.kind + " " + k.object }

// child is one that is observed.
type child struct {
	kind *childKind
	*observed
}

func (c child) String() string {
	return keyOfChild(c.kind, c.GetNamespace(), c.GetName()).String()
}

// selectorOf returns which labels make an object a child of parent.
func (a *Applier) selectorOf(parent *observed) (labels.Selector, error) {
	if a.controller.generatesSelector() {
		return labels.SelectorFromSet(labels.Set{uidLabel: string(parent.GetUID())}), nil
	}
	field, found, err := unstructured.NestedMap(parent.Object, "spec", "selector")
	if err != nil || !found || len(field) == 0 {
		return nil, errors.New("spec.selector is missing or empty: it says which objects are children, unless the controller generates it (generateSelector)")
	}
	var selector metav1.LabelSelector
	if err := fromUnstructured(field, &selector); err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil, errors.New("spec.selector is empty: it would select every object")
	}
	return metav1.LabelSelectorAsSelector(&selector)
}

// claim returns the children of a parent. An object that matches the selector and
// that nothing controls is adopted, one that the parent controls and that does
// not match is released; neither is done while the parent is being deleted.
func (a *Applier) claim(ctx context.Context, parent *observed, selector labels.Selector, state *parentState) (map[childKey]child, error) {
	claimed := map[childKey]child{}
	parentChecked := false
	for _, kind := range a.children {
		candidates := kind.cache.lookup(byOwner, string(parent.GetUID()))
		if !terminating(parent) {
			candidates = append(candidates, a.orphansFor(kind, parent, selector)...)
		}
		for _, o := range candidates {
			if parent.GetNamespace() != "" && o.GetNamespace() != parent.GetNamespace() {
				continue // no owner can reach there; the garbage collector removes it
			}
			owned := controllerOf(o) != nil
			matches := selector.Matches(labels.Set(o.GetLabels()))
			switch {
			case owned && matches, owned && terminating(parent):
			case owned && !terminating(o):
				if err := a.release(ctx, kind, o, parent, state); err != nil {
					return nil, err
				}
				continue
			case !owned && matches && !terminating(o):
				if !parentChecked {
					if err := a.recheck(ctx, parent); err != nil {
						return nil, err
					}
					parentChecked = true
				}
				adopted, err := a.adopt(ctx, kind, o, parent, state)
				if err != nil {
					return nil, err
				}
				o = adopted
			default:
				continue
			}
			claimed[keyOfChild(kind, o.GetNamespace(), o.GetName())] = child{kind, o}
		}
	}
	return claimed, nil
}

// orphansFor returns objects that nothing controls and that may match the
// selector of parent. What it costs does not depend on how many other orphans
// there are, unless the selector only says which labels must be absent.
func (a *Applier) orphansFor(kind *childKind, parent *observed, selector labels.Selector) []*observed {
	var candidates []*observed
	if a.controller.generatesSelector() {
		candidates = kind.cache.lookup(byLabel, uidLabel+"="+string(parent.GetUID()))
	} else {
		for _, term := range termsOf(selector) {
			candidates = append(candidates, kind.cache.lookup(orphans, a.orphanKey(parent.GetNamespace(), term))...)
		}
	}
	return slices.DeleteFunc(candidates, func(o *observed) bool { return controllerOf(o) != nil })
}

// orphanKey is how parents and the orphans that they may adopt find each other,
// where no selector is generated.
func (a *Applier) orphanKey(namespace, term string) string {
	if !a.parent.namespaced {
		namespace = "" // such parents adopt in every namespace
	}
	return namespace + " " + term
}

// indexers are the indexes of a cache by which parents and orphans find each
// other, where no selector is generated.
func (a *Applier) indexers(s scope) cache.Indexers {
	indexers := cache.Indexers{}
	if a.controller.generatesSelector() {
		return indexers
	}
	if s == a.parentScope() {
		indexers[bySelector] = func(object any) ([]string, error) {
			o := object.(*observed)
			selector, err := a.selectorOf(o)
			if err != nil {
				return nil, nil // the sync says so
			}
			return a.orphanKeys(o.GetNamespace(), termsOf(selector)), nil
		}
	}
	if a.childScopes[s] != nil {
		indexers[orphans] = func(object any) ([]string, error) {
			o := object.(*observed)
			if controllerOf(o) != nil {
				return nil, nil
			}
			return a.orphanKeys(o.GetNamespace(), termsOfLabels(o.GetLabels())), nil
		}
	}
	return indexers
}

func (a *Applier) orphanKeys(namespace string, terms []string) []string {
	keys := make([]string, len(terms))
	for i, term := range terms {
		keys[i] = a.orphanKey(namespace, term)
	}
	return keys
}

// recheck makes sure that the parent is still there before something is adopted
// for it: an owner that is gone would have the garbage collector delete it.
func (a *Applier) recheck(ctx context.Context, parent *observed) error {
	a.metrics.read(a.parent, "adopt")
	live, err := a.dynamic.Resource(a.parent.resource).Namespace(parent.GetNamespace()).Get(ctx, parent.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the parent before adopting: %w", err)
	}
	if live.GetUID() != parent.GetUID() || live.GetDeletionTimestamp() != nil {
		return &lostRace{errors.New("the parent is gone or being deleted, so it adopts nothing")}
	}
	return nil
}

func (a *Applier) adopt(ctx context.Context, kind *childKind, o *observed, parent *observed, state *parentState) (*observed, error) {
	references := append(ownerReferences(o), a.ownerReference(parent))
	return a.setOwners(ctx, "adopt", kind, o, references, state)
}

func (a *Applier) release(ctx context.Context, kind *childKind, o *observed, parent *observed, state *parentState) error {
	var references []any
	for _, reference := range ownerReferences(o) {
		if r, ok := reference.(map[string]any); !ok || r["uid"] != string(parent.GetUID()) {
			references = append(references, reference)
		}
	}
	_, err := a.setOwners(ctx, "release", kind, o, references, state)
	return err
}

func (a *Applier) setOwners(ctx context.Context, verb string, kind *childKind, o *observed, references []any, state *parentState) (*observed, error) {
	var value any
	if len(references) > 0 {
		value = references
	}
	patch := guarded(o, map[string]any{"metadata": map[string]any{"ownerReferences": value}})
	written, err := a.patch(ctx, verb, kind.kind, o, patch, forReal)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = &lostRace{err}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s %s: %w", verb, kind.key(), contract.ObjectKey(o.GetNamespace(), o.GetName()), err)
	}
	a.logger.Info("changed the owner of a child", "verb", verb, "kind", kind.key(), "namespace", o.GetNamespace(), "name", o.GetName())
	state.wrote(kind.cache, written)
	return written, nil
}

func ownerReferences(o *observed) []any {
	references, _, _ := unstructured.NestedSlice(o.Object, "metadata", "ownerReferences")
	return references
}

// ownerReference makes parent control an object.
func (a *Applier) ownerReference(parent *observed) map[string]any {
	return map[string]any{
		"apiVersion":         parent.GetAPIVersion(),
		"kind":               parent.GetKind(),
		"name":               parent.GetName(),
		"uid":                string(parent.GetUID()),
		"controller":         true,
		"blockOwnerDeletion": true,
	}
}

// ownedBy returns which parent an owner reference means, if it is one of ours.
func (a *Applier) ownedBy(reference *metav1.OwnerReference, namespace string) (types.NamespacedName, bool) {
	gvk := a.parent.gvk()
	if reference == nil || reference.Kind != gvk.Kind || groupOf(reference.APIVersion) != gvk.Group {
		return types.NamespacedName{}, false
	}
	key := types.NamespacedName{Name: reference.Name}
	if a.parent.namespaced {
		key.Namespace = namespace
	}
	return key, true
}
