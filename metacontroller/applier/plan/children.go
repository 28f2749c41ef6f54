package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A wave is a run of neighbours of one kind. Its actions are begun in order and may
// be under way at once; a wave begins when all of the one before are answered.
type Wave []*Action

// wavesOf returns the waves of actions, of which nil is one with nothing to do.
func wavesOf(kinds []*ChildKind, actions []*Action) []Wave {
	var waves []Wave
	for len(actions) > 0 {
		n := 1
		for n < len(actions) && kinds[n] == kinds[0] {
			n++
		}
		wave := Wave(slices.DeleteFunc(slices.Clone(actions[:n]), func(a *Action) bool { return a == nil }))
		if len(wave) > 0 {
			waves = append(waves, wave)
		}
		kinds, actions = kinds[n:], actions[n:]
	}
	return waves
}

// Deletions are the children that are not wanted any more, the last one of the
// answer that held them first. Those that no answer has held since the start come
// before them, the youngest first, and then by the order of spec.childResources,
// backwards.
func (r *Round) Deletions() []Wave {
	r.memory.prune(r.existing())
	if r.unwanted() == 0 {
		return nil
	}
	wanted := make(map[ChildKey]bool, len(r.desired))
	for _, d := range r.desired {
		wanted[d.key()] = true
	}
	type candidate struct {
		Child
		place int
	}
	var unwanted []candidate
	for key, c := range r.Claimed {
		if !wanted[key] && !Terminating(c.Object) {
			unwanted = append(unwanted, candidate{c, r.memory.get(c.GetUID()).place})
		}
	}
	slices.SortFunc(unwanted, func(a, b candidate) int {
		if a.place != b.place {
			if a.place == 0 || b.place == 0 {
				return cmp.Compare(a.place, b.place)
			}
			return cmp.Compare(b.place, a.place)
		}
		return cmp.Or(
			b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time),
			cmp.Compare(b.Kind.Rank, a.Kind.Rank),
			strings.Compare(b.GetNamespace()+"/"+b.GetName(), a.GetNamespace()+"/"+a.GetName()))
	})
	kinds, actions := make([]*ChildKind, len(unwanted)), make([]*Action, len(unwanted))
	for i, c := range unwanted {
		kinds[i], actions[i] = c.Kind, deletion(c.Child)
		actions[i].What = "deleting " + c.String()
	}
	return wavesOf(kinds, actions)
}

// deletion removes a child, in the state in which that was decided.
func deletion(c Child) *Action {
	a := uponChild(Delete, c.Kind, c.Object)
	a.UID, a.ResourceVersion, a.Propagation = c.GetUID(), c.GetResourceVersion(), metav1.DeletePropagationBackground
	return a
}

// Applications make the children of the answer what it says, in its order.
// Unchanged are the kinds of those that were compared and are so already.
func (r *Round) Applications() (waves []Wave, unchanged []*ChildKind) {
	kinds, actions := make([]*ChildKind, len(r.desired)), make([]*Action, len(r.desired))
	for i, d := range r.desired {
		kinds[i] = d.Kind
		c, exists := r.Claimed[d.key()]
		if !exists {
			actions[i] = r.creation(d)
		} else {
			if place := i + 1; r.memory.get(c.GetUID()).place != place {
				r.memory.note(c.GetUID(), func(known *record) { known.place = place })
			}
			var compared bool
			if actions[i], compared = r.change(c, d); compared && actions[i] == nil {
				unchanged = append(unchanged, d.Kind)
			}
		}
		if a := actions[i]; a != nil {
			a.What = d.String()
		}
	}
	return wavesOf(kinds, actions), unchanged
}

// creation makes a child that was not observed.
func (r *Round) creation(d *Desired) *Action {
	a := &Action{Verb: Create, Kind: d.Kind, KindKey: d.Kind.Key(), Namespace: d.Namespace, Name: d.Name, desired: d}
	a.Body = r.owned(d, nil)
	return a
}

// owned is the child with the parent as its owner, and with what is set of its
// metadata.
func (r *Round) owned(d *Desired, set map[string]any) map[string]any {
	object := maps.Clone(d.Object)
	metadata := maps.Clone(d.Object["metadata"].(map[string]any))
	maps.Copy(metadata, set)
	metadata["ownerReferences"] = []any{ownerReference(r.Parent)}
	object["metadata"] = metadata
	return object
}

// change makes an observed child what the hook wants; it is nil if it is so
// already. Compared tells whether that was looked at.
func (r *Round) change(c Child, d *Desired) (a *Action, compared bool) {
	compared = c.Kind.Method != OnDelete
	switch {
	case Terminating(c.Object):
		return nil, false
	case d.Object == nil:
		return nil, compared
	}
	if compared {
		left := compareChild(c.Object, d.Object, r.controller.Complete)
		if !left.empty() && !r.memory.knows(c.GetUID(), left) || r.dropsFields(c, d) {
			a = r.update(c, d, left)
			a.DryRun = c.Kind.Method == Recreate
			return a, true
		}
	}
	return r.childStatus(c.Kind, c.Object, d), compared
}

func (r *Round) update(c Child, d *Desired, left difference) *Action {
	if r.controller.Complete {
		a := uponChild(Patch, c.Kind, c.Object)
		a.Body, a.desired, a.left = guarded(c.Object, left.patch), d, left
		return a
	}
	a := uponChild(Apply, c.Kind, c.Object)
	a.Body = r.owned(d, map[string]any{"uid": string(c.GetUID()), "resourceVersion": c.GetResourceVersion()})
	a.TakeOver = !r.memory.get(c.GetUID()).takenOver
	a.desired, a.left = d, left
	return a
}

// dropsFields tells whether a partial child may have fewer fields than were last
// applied, which no comparison with the observed object shows. Nothing is known
// after a start; then it is applied once.
func (r *Round) dropsFields(c Child, d *Desired) bool {
	if r.controller.Complete {
		return false
	}
	return r.memory.get(c.GetUID()).applied != fingerprintOf(d.Object)
}

// childStatus applies the status of a child to its status subresource, with a
// field manager of its own: fields of the status that others set stay, fields that
// the hook no longer returns go. It is nil if that is done.
func (r *Round) childStatus(kind *ChildKind, o *Object, d *Desired) *Action {
	if !kind.DecidesStatus || d.Status == nil {
		return nil
	}
	known, left := r.memory.get(o.GetUID()), compareChildStatus(o, d)
	if known.statusApplied == fingerprintOf(d.Status) && (left.empty() || known.statusLeft == left.fingerprint()) {
		return nil
	}
	metadata := map[string]any{"name": d.Name, "uid": string(o.GetUID()), "resourceVersion": o.GetResourceVersion()}
	if d.Namespace != "" {
		metadata["namespace"] = d.Namespace
	}
	a := uponChild(ApplyStatus, kind, o)
	a.Subresource, a.desired = "status", d
	a.Body = map[string]any{"apiVersion": d.Object["apiVersion"], "kind": d.Object["kind"], "metadata": metadata, "status": d.Status}
	return a
}
