package applier

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Annotations on a CompositeController that Metacontroller itself does not read.
const (
	// ChildrenAnnotation, on a CompositeController, says how its hooks return
	// children that exist: [ChildrenPartial], the default, or [ChildrenComplete].
	ChildrenAnnotation = "applier.rtj.dev/children"
	// ChildrenPartial: only the fields that the hook cares for.
	ChildrenPartial = "partial"
	// ChildrenComplete: as observed with the hook's own fields changed, without
	// status and system metadata. What is left out is removed.
	ChildrenComplete = "complete"

	// WarningsAnnotation, on a CompositeController, says which conditions of a
	// parent are bad news, as in "Stalled=True,Reachable=False": when one becomes
	// so, the event about it is a Warning. Without it, those of defaultWarnings
	// are.
	WarningsAnnotation = "applier.rtj.dev/warnings"
	defaultWarnings    = "Stalled=True,Failed=True,Degraded=True"
)

// Annotations on a CompositeController that list kinds, each as the lowercase
// plural and the group: "configmaps, jobs.batch".
const (
	// ChildStatusAnnotation lists child kinds whose status the hooks decide too:
	// the status of a child in an answer is applied to its status subresource. The
	// status of all other children is dropped from answers, as Metacontroller does.
	ChildStatusAnnotation = "applier.rtj.dev/child-status"
	// MetadataOnlyAnnotation lists kinds of which only apiVersion, kind and
	// metadata are watched, held in memory and shown to the hooks, among children
	// and related objects. Such children are created and deleted but cannot be
	// compared, hence their update strategy must be OnDelete.
	MetadataOnlyAnnotation = "applier.rtj.dev/metadata-only"
)

// listed returns the kinds that an annotation lists.
func (c *CompositeController) listed(annotation string) map[schema.GroupResource]bool {
	kinds := map[schema.GroupResource]bool{}
	for item := range strings.SplitSeq(c.Annotations[annotation], ",") {
		if item = strings.TrimSpace(item); item != "" {
			kinds[schema.ParseGroupResource(item)] = true
		}
	}
	return kinds
}

func (r Resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: groupOf(r.APIVersion), Resource: r.Resource}
}

// validateLists refuses lists of kinds that contradict the rest.
func (c *CompositeController) validateLists(fault func(field, format string, args ...any)) {
	children := map[schema.GroupResource]ChildResource{}
	for _, child := range c.Spec.ChildResources {
		children[child.groupResource()] = child
	}
	each := func(annotation string, refuse func(kind schema.GroupResource) string) {
		for _, kind := range slices.SortedFunc(maps.Keys(c.listed(annotation)), byGroupAndName) {
			if reason := refuse(kind); reason != "" {
				fault("metadata.annotations["+annotation+"]", "%s: %s", kind, reason)
			}
		}
	}
	withBody := c.listed(ChildStatusAnnotation)
	each(ChildStatusAnnotation, func(kind schema.GroupResource) string {
		if _, ok := children[kind]; !ok {
			return "not among spec.childResources; want the lowercase plural and the group, such as configmaps or jobs.batch"
		}
		return ""
	})
	customizes := c.Spec.Hooks != nil && c.Spec.Hooks.Customize != nil
	each(MetadataOnlyAnnotation, func(kind schema.GroupResource) string {
		child, isChild := children[kind]
		switch {
		case kind == c.Spec.ParentResource.groupResource():
			return "is the parent, whose spec the hooks need"
		case !isChild && !customizes:
			return "not among spec.childResources, and no customize hook asks for related objects"
		case isChild && child.method() != OnDelete:
			return fmt.Sprintf("a child without a body cannot be compared, so its update strategy must be OnDelete, not %s", child.method())
		case withBody[kind]:
			return "is in " + ChildStatusAnnotation + " too, and a child without a body has no status to compare"
		}
		return ""
	})
}

func byGroupAndName(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}
