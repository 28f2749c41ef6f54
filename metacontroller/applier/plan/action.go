package plan

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
)

// Verb is what an action does.
type Verb string

const (
	// Finalizer, Adopt, Release, Patch and Status are JSON merge patches: of the
	// parent's finalizers, of an object's owners, of a complete child, and of the
	// parent's status.
	Finalizer Verb = "finalizer"
	Adopt     Verb = "adopt"
	Release   Verb = "release"
	Patch     Verb = "patch"
	Status    Verb = "status"
	// Create is a POST, and nothing else: if the object exists after all, the view
	// was late or the name is taken, and neither is a reason to overwrite it.
	Create Verb = "create"
	// Delete has uid, resourceVersion and propagation.
	Delete Verb = "delete"
	// Apply and ApplyStatus are forced server-side applies, of a partial child and
	// of a child's status. With uid and resourceVersion in them the API server
	// neither creates the object nor applies to another state.
	Apply       Verb = "apply"
	ApplyStatus Verb = "apply-status"
	// Look is a live read: of what exists where a child was to be created.
	Look Verb = "look"
)

// Action is one request to the API server, with what it was decided upon. It is
// data and must not be modified.
type Action struct {
	Verb Verb `json:"verb"`
	// Kind of the child; nil: it is about the parent.
	Kind      *ChildKind `json:"-"`
	KindKey   string     `json:"kind"`
	Namespace string     `json:"namespace,omitempty"`
	Name      string     `json:"name"`
	// Body to be sent. Merge patches and applies have the uid and the
	// resourceVersion of the state that they were decided upon in their metadata.
	Body        map[string]any `json:"body,omitempty"`
	Subresource string         `json:"subresource,omitempty"`
	// Preconditions and Propagation of a deletion.
	UID             types.UID                  `json:"uid,omitempty"`
	ResourceVersion string                     `json:"resourceVersion,omitempty"`
	Propagation     metav1.DeletionPropagation `json:"propagation,omitempty"`
	// DryRun only asks what would come of it.
	DryRun bool `json:"dryRun,omitempty"`
	// CheckParent has a live read show first that the parent is there and is not
	// being deleted: see [StillThere].
	CheckParent bool `json:"checkParent,omitempty"`
	// TakeOver has fields that were written by our POST, or by Metacontroller
	// before us, made ours to apply first. Otherwise a field that the hook drops
	// would stay, held up by the old entry.
	TakeOver bool `json:"takeOver,omitempty"`
	// What is it, for messages; empty for what is not a child of the answer.
	What string `json:"-"`

	// upon is the state that it was decided upon; nil for what does not exist.
	upon *Object
	// desired is the child that it is to make; nil if it is none.
	desired *Desired
	// present says that the finalizer is added, left what a patch changes.
	present bool
	left    difference
	// status is what the parent's is to be.
	status map[string]any
}

// Overtaken returns an error if the view already shows that the object has changed
// since the action was decided upon it, so that it would be refused. Not sending
// it saves the request.
func (a *Action) Overtaken(v View) error {
	if a.upon == nil {
		return nil
	}
	now := v.Get(a.Kind, a.Namespace, a.Name)
	if now == nil || !Older(a.upon.GetResourceVersion(), now.GetResourceVersion()) {
		return nil
	}
	return &LostRace{errOvertaken}
}

// uponParent is an action about the parent, as it is observed.
func (c *Controller) uponParent(verb Verb, parent *Object) *Action {
	return &Action{Verb: verb, KindKey: c.Parent.Key(), Namespace: parent.GetNamespace(), Name: parent.GetName(), upon: parent}
}

// uponChild is an action about an object that is observed.
func uponChild(verb Verb, kind *ChildKind, o *Object) *Action {
	return &Action{Verb: verb, Kind: kind, KindKey: kind.Key(), Namespace: o.GetNamespace(), Name: o.GetName(), upon: o}
}

// guarded adds to a patch the state of the object that it was made for, so that
// it fails on any other.
func guarded(o *Object, patch map[string]any) map[string]any {
	result := maps.Clone(patch)
	metadata, _ := patch["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = string(o.GetUID())
	metadata["resourceVersion"] = o.GetResourceVersion()
	result["metadata"] = metadata
	return result
}

// Child names the child that the action is about, for messages.
func (a *Action) Child() string { return a.KindKey + " " + contract.ObjectKey(a.Namespace, a.Name) }

// StillSo returns nil if a live read of the object shows the state that the action
// was decided upon.
func (a *Action) StillSo(live *unstructured.Unstructured) error {
	if live.GetUID() != a.upon.GetUID() || live.GetResourceVersion() != a.upon.GetResourceVersion() {
		return &LostRace{errOvertaken}
	}
	return nil
}

// Upon returns the body of an apply with another resourceVersion, which our own
// write led to.
func (a *Action) Upon(resourceVersion string) map[string]any {
	body := maps.Clone(a.Body)
	metadata := maps.Clone(a.Body["metadata"].(map[string]any))
	metadata["resourceVersion"] = resourceVersion
	body["metadata"] = metadata
	return body
}
