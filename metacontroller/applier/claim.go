package applier

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// claim finds the children of a parent, and adopts and releases.
func (a *Applier) claim(ctx context.Context, r *round) error {
	selector, err := r.Select()
	if err != nil {
		return err
	}
	for _, kind := range a.plan.Children {
		cache := a.childCaches[kind]
		owned := cache.lookup(byOwner, string(r.Parent.GetUID()))
		var orphans []*plan.Object
		if !plan.Terminating(r.Parent) {
			orphans = a.orphansFor(cache, r.Parent, selector)
		}
		for _, action := range r.Claim(kind, owned, orphans) {
			if err := a.do(ctx, r, action); err != nil {
				return err
			}
		}
	}
	return nil
}

// orphansFor returns objects that nothing controls and that may match the
// selector of parent. What it costs does not depend on how many other orphans
// there are, unless the selector only says which labels must be absent.
func (a *Applier) orphansFor(cache *objects, parent *plan.Object, selector labels.Selector) []*plan.Object {
	var candidates []*plan.Object
	if a.plan.GeneratesSelector {
		candidates = cache.lookup(byLabel, plan.UIDLabel+"="+string(parent.GetUID()))
	} else {
		for _, term := range termsOf(selector) {
			candidates = append(candidates, cache.lookup(orphans, a.orphanKey(parent.GetNamespace(), term))...)
		}
	}
	return slices.DeleteFunc(candidates, func(o *plan.Object) bool { return plan.ControllerOf(o) != nil })
}

// orphanKey is how parents and the orphans that they may adopt find each other,
// where no selector is generated.
func (a *Applier) orphanKey(namespace, term string) string {
	if !a.plan.Parent.Namespaced {
		namespace = "" // such parents adopt in every namespace
	}
	return namespace + " " + term
}

// indexers are the indexes of a cache by which parents and orphans find each
// other, where no selector is generated.
func (a *Applier) indexers(s scope) cache.Indexers {
	indexers := cache.Indexers{}
	if a.plan.GeneratesSelector {
		return indexers
	}
	if s == a.parentScope() {
		indexers[bySelector] = func(object any) ([]string, error) {
			o := object.(*plan.Object)
			selector, err := a.plan.SelectorOf(o)
			if err != nil {
				return nil, nil // the sync says so
			}
			return a.orphanKeys(o.GetNamespace(), termsOf(selector)), nil
		}
	}
	if a.childScopes[s] != nil {
		indexers[orphans] = func(object any) ([]string, error) {
			o := object.(*plan.Object)
			if plan.ControllerOf(o) != nil {
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
