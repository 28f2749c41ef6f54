package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// ParentChanged tells whether a change of a parent is a reason to sync it; before
// is nil for one that appeared, after for one that is gone.
func (c *Controller) ParentChanged(before, after *Object) bool {
	return before == nil || after == nil || !c.IgnoresStatusChanges ||
		before.GetGeneration() != after.GetGeneration() ||
		Terminating(after) ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// ControllingParent returns the parent that controls an object, if one of ours
// does. Controlled tells whether anybody does.
func (c *Controller) ControllingParent(o *Object) (parent types.NamespacedName, ours, controlled bool) {
	owner := ControllerOf(o)
	if owner == nil {
		return types.NamespacedName{}, false, false
	}
	parent, ours = c.OwnedBy(owner, o.GetNamespace())
	return parent, ours, true
}
