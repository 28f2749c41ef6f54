package plan

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/hooks/contract"
)

// Outcome is what follows from the answer to an action.
type Outcome struct {
	// Next is to be done at once, by whoever did the action; nil: nothing.
	Next *Action
	// Err is what went wrong with the child or parent. A [LostRace] is no failure.
	Err error
	// Kept are the fields that the API server holds otherwise than they are wanted,
	// if that is news. It is not tried again until one of them changes.
	Kept []string
}

// Done takes the answer of the API server to an action: the object as it is then,
// nil after a deletion, or why it was refused. It may be called concurrently for
// the actions of one wave of children; now is when the answer was there.
func (r *Round) Done(a *Action, written *Object, err error, now time.Time) Outcome {
	switch a.Verb {
	case Finalizer:
		return r.finalizerDone(a, written, err, now)
	case Adopt, Release:
		return r.ownersDone(a, written, err, now)
	case Status:
		return r.statusDone(a, written, err, now)
	case Create:
		return r.created(a, written, err, now)
	case Look:
		return Outcome{Err: r.whoTookIt(a, written, err)}
	case Delete:
		return r.deleted(a, err, now)
	case ApplyStatus:
		return r.childStatusDone(a, written, err, now)
	default:
		return r.updated(a, written, err, now)
	}
}

// overtaken tells whether the object was another, or gone, when it was written.
func overtaken(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

func (r *Round) finalizerDone(a *Action, written *Object, err error, now time.Time) Outcome {
	switch {
	case apierrors.IsNotFound(err) && !a.present:
		return Outcome{}
	case overtaken(err):
		return Outcome{Err: &LostRace{fmt.Errorf("finalizer: %w", err)}}
	case err != nil:
		return Outcome{Err: fmt.Errorf("finalizer: %w", err)}
	}
	r.memory.wrote(nil, written, now)
	r.Parent = written
	r.gone = !a.present && r.finalized && Terminating(written) && len(written.GetFinalizers()) == 0
	return Outcome{}
}

func (r *Round) ownersDone(a *Action, written *Object, err error, now time.Time) Outcome {
	if overtaken(err) {
		err = &LostRace{err}
	}
	if err != nil {
		return Outcome{Err: fmt.Errorf("%s %s %s: %w", a.Verb, a.KindKey, contract.ObjectKey(a.Namespace, a.Name), err)}
	}
	r.memory.wrote(a.Kind, written, now)
	if a.Verb == Adopt {
		r.claim(Child{a.Kind, written})
	}
	return Outcome{}
}

func (r *Round) statusDone(a *Action, written *Object, err error, now time.Time) Outcome {
	switch {
	case overtaken(err):
		return Outcome{Err: &LostRace{fmt.Errorf("status: %w", err)}}
	case err != nil:
		return Outcome{Err: fmt.Errorf("status: %w", err)}
	}
	r.memory.wrote(nil, written, now)
	still := compareStatus(written, a.status)
	return Outcome{Kept: r.kept(written, still)}
}

// kept remembers what is left of a difference, and names the fields if it is news.
func (r *Round) kept(written *Object, left difference) []string {
	if !r.memory.remember(written.GetUID(), left) {
		return nil
	}
	return paths(left.patch, "")
}

func (r *Round) created(a *Action, written *Object, err error, now time.Time) Outcome {
	d := a.desired
	if apierrors.IsAlreadyExists(err) {
		return Outcome{Next: &Action{Verb: Look, Kind: a.Kind, KindKey: a.KindKey, Namespace: a.Namespace, Name: a.Name, What: a.What, desired: d}}
	}
	if err != nil {
		return Outcome{Err: fmt.Errorf("creating: %w", err)}
	}
	r.memory.wrote(a.Kind, written, now)
	place := r.placeOf(d)
	r.memory.note(written.GetUID(), func(known *record) { known.place = place })
	if !r.controller.Complete && !a.Kind.MetadataOnly {
		r.memory.remember(written.GetUID(), compareChild(written, d.Object, false))
		r.memory.noteApplied(written.GetUID(), d.Object)
	}
	return Outcome{Next: r.childStatus(a.Kind, written, d)}
}

// placeOf is the place of a child in the answer, from 1.
func (r *Round) placeOf(d *Desired) int {
	for i := range r.desired {
		if r.desired[i] == d {
			return i + 1
		}
	}
	return 0
}

// whoTookIt finds out why a child that should be created exists.
func (r *Round) whoTookIt(a *Action, live *Object, err error) error {
	if apierrors.IsNotFound(err) {
		return &LostRace{errors.New("existed when it was to be created, and is gone")}
	}
	if err != nil {
		return fmt.Errorf("reading what exists already: %w", err)
	}
	owner := ControllerOf(live)
	uid := r.Parent.GetUID()
	switch {
	case Terminating(live):
		return &LostRace{errors.New("is being deleted, to be created when that is done")}
	case owner == nil:
		return &OwnershipConflict{"exists already, and nothing controls it: delete or rename it, or give it the labels of the parent's selector to have it adopted"}
	case owner.UID != uid:
		return &OwnershipConflict{fmt.Sprintf("exists already, and %s %s (uid %s) controls it: it is left alone", owner.Kind, owner.Name, owner.UID)}
	case r.controller.GeneratesSelector && live.GetLabels()[UIDLabel] != string(uid):
		return &OwnershipConflict{fmt.Sprintf("exists already, and has lost its label %s: set it to %s, or delete the object", UIDLabel, uid)}
	default:
		return &LostRace{errors.New("exists already; the cache is late")}
	}
}

func (r *Round) deleted(a *Action, err error, now time.Time) Outcome {
	switch {
	case apierrors.IsNotFound(err):
		return Outcome{}
	case apierrors.IsConflict(err):
		return Outcome{Err: &LostRace{err}}
	case err != nil:
		return Outcome{Err: err}
	}
	r.memory.deleted(a.Kind, a.upon, now)
	return Outcome{}
}

// updated takes the answer to a patch or an apply, for real or not.
func (r *Round) updated(a *Action, written *Object, err error, now time.Time) Outcome {
	if a.DryRun {
		return r.compared(a, written, err)
	}
	switch {
	case overtaken(err):
		return Outcome{Err: &LostRace{err}}
	case err != nil:
		return Outcome{Err: fmt.Errorf("updating: %w", err)}
	}
	r.memory.wrote(a.Kind, written, now)
	kept := r.settled(written, a.desired)
	return Outcome{Next: r.childStatus(a.Kind, written, a.desired), Kept: kept}
}

// compared takes the answer to the dry run before a child that differs is deleted,
// so that a later sync creates it anew. Whether it really differs, the API server
// is asked first: a quantity in another notation would have it deleted for ever.
func (r *Round) compared(a *Action, would *Object, err error) Outcome {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		// It cannot be changed in place, hence it differs.
	case overtaken(err):
		return Outcome{Err: &LostRace{err}}
	case err != nil:
		return Outcome{Err: fmt.Errorf("comparing: %w", err)}
	case compareChild(would, a.upon.Unstructured.Object, true).empty():
		return Outcome{Kept: r.settled(a.upon, a.desired)}
	}
	deletion := deletion(Child{a.Kind, a.upon})
	deletion.What = a.What
	return Outcome{Next: deletion}
}

// TookOver notes that no older entry of managedFields of the child holds our
// fields, so that this need not be looked at again.
func (r *Round) TookOver(a *Action) {
	r.memory.note(a.upon.GetUID(), func(known *record) { known.takenOver = true })
}

// settled notes what was left of the difference after a write.
func (r *Round) settled(written *Object, d *Desired) []string {
	left := compareChild(written, d.Object, r.controller.Complete)
	kept := r.kept(written, left)
	if !r.controller.Complete {
		r.memory.noteApplied(written.GetUID(), d.Object)
	}
	return kept
}

func (r *Round) childStatusDone(a *Action, written *Object, err error, now time.Time) Outcome {
	switch {
	case overtaken(err):
		return Outcome{Err: &LostRace{fmt.Errorf("status: %w", err)}}
	case err != nil:
		return Outcome{Err: fmt.Errorf("applying its status: %w", err)}
	}
	r.memory.wrote(a.Kind, written, now)
	left := compareChildStatus(written, a.desired)
	r.memory.note(written.GetUID(), func(known *record) {
		known.statusApplied, known.statusLeft = fingerprintOf(a.desired.Status), left.fingerprint()
	})
	return Outcome{Kept: paths(left.patch, "")}
}
