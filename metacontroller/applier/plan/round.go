package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
)

// Round is one sync of one parent.
type Round struct {
	// Parent is the newest state of it that is known: as it was observed, or as our
	// write of its finalizers returned it.
	Parent *Object
	// Finalizing says that the finalize hook decides.
	Finalizing bool
	// Claimed are the children, of all kinds that were claimed.
	Claimed map[ChildKey]Child

	controller *Controller
	memory     *Memory
	// selector tells which objects are children of the parent.
	selector labels.Selector
	// parentChecked says that an adoption of this round checks the parent.
	parentChecked bool

	// What the hook answered. finalized lets the parent go.
	desired    []*Desired
	status     map[string]any
	sameStatus bool
	finalized  bool
	// gone says that the parent is let go and nothing is left of it.
	gone bool
}

// Begin begins a sync of a parent. It returns nil for one that is none of ours.
// The memory is that of the parent of this name.
func (c *Controller) Begin(parent *Object, m *Memory) *Round {
	selected := c.selects(parent)
	if !selected && !slices.Contains(parent.GetFinalizers(), c.Finalizer) {
		return nil
	}
	finalizing := c.Finalizes && (Terminating(parent) || !selected)
	if !finalizing && !c.Syncs {
		return nil
	}
	m.For(parent.GetUID())
	return &Round{controller: c, memory: m, Parent: parent, Finalizing: finalizing, Claimed: map[ChildKey]Child{}}
}

// Concerns tells whether a parent is one of ours: selected, or with our finalizer.
func (c *Controller) Concerns(parent *Object) bool {
	return c.selects(parent) || slices.Contains(parent.GetFinalizers(), c.Finalizer)
}

func (c *Controller) selects(parent *Object) bool {
	return c.Selector.Empty() || c.Selector.Matches(labels.Set(parent.GetLabels()))
}

// Clone returns a copy that goes on by itself, with a memory of its own.
func (r *Round) Clone(m *Memory) *Round {
	c := *r
	c.memory = m
	c.Claimed = maps.Clone(r.Claimed)
	return &c
}

// KeepFinalizer adds our finalizer before anything else is done for a parent, and
// removes it where there is no finalize hook any more. It returns nil where there
// is nothing to do.
func (r *Round) KeepFinalizer() *Action {
	if r.Finalizing {
		return nil
	}
	return r.setFinalizer(r.controller.Finalizes)
}

func (r *Round) setFinalizer(present bool) *Action {
	name := r.controller.Finalizer
	finalizers := r.Parent.GetFinalizers()
	if slices.Contains(finalizers, name) == present {
		return nil
	}
	finalizers = slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == name })
	if present {
		finalizers = append(finalizers, name)
	}
	a := r.controller.uponParent(Finalizer, r.Parent)
	a.Body = guarded(r.Parent, map[string]any{"metadata": map[string]any{"finalizers": orNil(finalizers)}})
	a.present = present
	return a
}

// orNil returns a list as decoded JSON, and nil for an empty one.
func orNil[T any](list []T) any {
	if len(list) == 0 {
		return nil
	}
	values := make([]any, len(list))
	for i := range list {
		values[i] = list[i]
	}
	return values
}

// Manages tells whether the children of the parent are made what the hook wants.
func (r *Round) Manages() bool {
	return (r.Finalizing || !Terminating(r.Parent)) && !heldByGarbageCollector(r.Parent)
}

// heldByGarbageCollector tells whether the garbage collector deletes or orphans
// the children of a parent that is being deleted, so that nobody else should
// touch them.
func heldByGarbageCollector(parent *Object) bool {
	return slices.ContainsFunc(parent.GetFinalizers(), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
}

// LetGo removes our finalizer once the hook says finalized and what was to be
// removed is seen to be gone: the deletions bring events. It returns nil if the
// parent stays. Done says whether all that was to be written was.
func (r *Round) LetGo(done bool) *Action {
	if !r.finalized || !done || r.Manages() && r.unwanted() > 0 {
		return nil
	}
	return r.setFinalizer(false)
}

// Status replaces the status of the parent, and is nil if it is so already.
func (r *Round) Status() *Action {
	if r.gone || r.sameStatus {
		return nil
	}
	left := compareStatus(r.Parent, r.status)
	if left.empty() || r.memory.knows(r.Parent.GetUID(), left) {
		return nil
	}
	a := r.controller.uponParent(Status, r.Parent)
	a.Body, a.Subresource, a.status = guarded(r.Parent, left.patch), "status", r.status
	return a
}

// existing are the uids of the parent and of the children that are observed.
func (r *Round) existing() map[types.UID]bool {
	exist := map[types.UID]bool{r.Parent.GetUID(): true}
	for _, c := range r.Claimed {
		exist[c.GetUID()] = true
	}
	return exist
}

// unwanted counts the children that are observed and not desired.
func (r *Round) unwanted() int {
	n := len(r.Claimed)
	for _, d := range r.desired {
		if _, ok := r.Claimed[d.key()]; ok {
			n--
		}
	}
	return n
}

// Decide takes the answer of the hook, or refuses it as a whole.
func (r *Round) Decide(answer *Answer, now time.Time) error {
	desired, err := r.desiredChildren(answer)
	if err != nil {
		return err
	}
	r.desired = desired
	r.sameStatus = answer.SameStatus && r.observesGeneration()
	if !r.sameStatus {
		r.status = answer.Status
		if answer.SameStatus {
			was, _ := r.Parent.Object["status"].(map[string]any)
			r.status = maps.Clone(was)
		}
		if r.status == nil {
			r.status = map[string]any{}
		}
		r.status["observedGeneration"] = r.Parent.GetGeneration()
	}
	r.finalized = r.Finalizing && answer.Finalized
	r.memory.resyncAfter(answer.ResyncAfterSeconds, now)
	return nil
}

// observesGeneration tells whether the observed status is of this generation.
func (r *Round) observesGeneration() bool {
	status, _ := r.Parent.Object["status"].(map[string]any)
	return equal(status["observedGeneration"], r.Parent.GetGeneration())
}

// Request is what the hook is asked: about the parent and its children, with the
// CompositeController as JSON and the objects that the customize hook asked for.
func (r *Round) Request(controller json.RawMessage, related contract.ObjectMap) *contract.SyncRequest {
	request := &contract.SyncRequest{
		Controller: controller,
		Parent:     r.Parent.JSON(),
		Children:   contract.ObjectMap{},
		Related:    related,
		Finalizing: r.Finalizing,
	}
	for _, kind := range r.controller.Children {
		request.Children[kind.Key()] = map[string]json.RawMessage{}
	}
	for key, c := range r.Claimed {
		request.Children.Set(key.Kind.Key(), contract.ObjectKey(key.Namespace, key.Name), c.JSON())
	}
	return request
}

// Memory is what is remembered of the parent.
func (r *Round) Memory() *Memory { return r.memory }
