package plan

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Select finds out which labels make an object a child of the parent.
func (r *Round) Select() (labels.Selector, error) {
	selector, err := r.controller.SelectorOf(r.Parent)
	r.selector = selector
	return selector, err
}

// Claim finds the children of one kind: among the objects that the parent controls
// by its uid, and among those that nothing controls and that may match its
// selector. An object that matches and that nothing controls is adopted, one that
// the parent controls and that does not match is released; neither is done while
// the parent is being deleted. Adopted ones are claimed once that is done.
func (r *Round) Claim(kind *ChildKind, owned, orphans []*Object) []*Action {
	var actions []*Action
	ending := Terminating(r.Parent)
	for _, o := range owned {
		switch {
		case r.isElsewhere(o):
		case ending, r.selector.Matches(labels.Set(o.GetLabels())):
			r.claim(Child{kind, o})
		case !Terminating(o):
			actions = append(actions, r.release(kind, o))
		}
	}
	if ending {
		return actions
	}
	for _, o := range orphans {
		if !r.isElsewhere(o) && !Terminating(o) && r.selector.Matches(labels.Set(o.GetLabels())) {
			actions = append(actions, r.adopt(kind, o))
		}
	}
	return actions
}

// isElsewhere tells whether no owner can reach the object; the garbage collector
// removes it.
func (r *Round) isElsewhere(o *Object) bool {
	return r.Parent.GetNamespace() != "" && o.GetNamespace() != r.Parent.GetNamespace()
}

func (r *Round) claim(c Child) { r.Claimed[c.Key()] = c }

func (r *Round) adopt(kind *ChildKind, o *Object) *Action {
	a := uponChild(Adopt, kind, o)
	a.Body = owners(o, append(ownerReferences(o), ownerReference(r.Parent)))
	// An owner that is gone would have the garbage collector delete the child.
	a.CheckParent = !r.parentChecked
	r.parentChecked = true
	return a
}

func (r *Round) release(kind *ChildKind, o *Object) *Action {
	var references []any
	for _, reference := range ownerReferences(o) {
		if of, ok := reference.(map[string]any); !ok || of["uid"] != string(r.Parent.GetUID()) {
			references = append(references, reference)
		}
	}
	a := uponChild(Release, kind, o)
	a.Body = owners(o, references)
	return a
}

func owners(o *Object, references []any) map[string]any {
	return guarded(o, map[string]any{"metadata": map[string]any{"ownerReferences": orNil(references)}})
}

func ownerReferences(o *Object) []any {
	references, _, _ := unstructured.NestedSlice(o.Object, "metadata", "ownerReferences")
	return references
}

// StillThere returns nil if a live read of the parent shows that something may be
// adopted for it.
func (r *Round) StillThere(live *Object) error {
	if live.GetUID() != r.Parent.GetUID() || Terminating(live) {
		return &LostRace{errors.New("the parent is gone or being deleted, so it adopts nothing")}
	}
	return nil
}
