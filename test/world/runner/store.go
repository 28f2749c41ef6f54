package runner

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/edge"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/store"
)

// reading is one of the store that goes on.
type reading struct {
	*edge.Reading
	uid   types.UID
	going *store.Reading
	// steps were made, the last at a revision of the store.
	steps    int
	revision int64
}

func (of *reading) name() string {
	namespace, name := of.Place.Job()
	return namespace + "/" + name
}

// beginReading begins a reading of the store.
func (r *Runner) beginReading(uid types.UID, of *edge.Reading) *reading {
	r.reads++
	begun := &reading{Reading: of, uid: uid, going: r.reader.Begin(r.Store, of.Place.Run(nil), of.Ask), revision: r.Store.Revision()}
	r.readings = append(r.readings, begun)
	return begun
}

// readOn makes the next part of a reading, and ends it if it was the last.
func (r *Runner) readOn(of *reading) (ended bool) {
	of.steps++
	of.revision = r.Store.Revision()
	if ended = of.going.Step(r.Store); ended {
		r.endReading(of, of.going.Snapshot())
	}
	return ended
}

// readAll makes the rest of a reading.
func (r *Runner) readAll(of *reading) {
	for !r.readOn(of) {
	}
}

// endReading ends a reading with what it found.
func (r *Runner) endReading(of *reading, found *checkpoint.Snapshot) {
	r.readings = slices.DeleteFunc(r.readings, func(other *reading) bool { return other == of })
	m := r.edges[of.uid]
	if m == nil {
		// Forgotten meanwhile. The product still holds on to the memory and tells of
		// the news; nothing is decided upon it.
		r.Enqueue(of.Place.Job())
		return
	}
	if waited := m.EndReading(of.Reading, found); !waited {
		r.Enqueue(of.Place.Job())
		return
	}
	r.waited(of.Reading, true)
}

// waited has the syncs go on that wait for a reading, if it ended or they waited
// for long enough.
func (r *Runner) waited(of *edge.Reading, over bool) {
	now := r.Now()
	waits := func(j *job) bool {
		f := j.flight
		return f != nil && f.reading != nil && (f.reading == of || of == nil) && (over || !now.Before(f.patience))
	}
	if !slices.ContainsFunc(r.jobs, waits) {
		return
	}
	for _, j := range slices.Clone(r.jobs) {
		if !waits(j) {
			continue
		}
		if !r.SlowReads {
			return // the answer itself waits, and goes on
		}
		f := j.flight
		f.reading = nil
		f.answering.Waited(&r.edge(f.answering.Observation.Parent.UID).Memory)
		r.goOn(j)
	}
}

// readingsDue ends readings that took too long, and answers that waited for long
// enough.
func (r *Runner) readingsDue() {
	now := r.Now()
	for _, of := range slices.Clone(r.readings) {
		if !now.Before(of.Begun.Add(edge.ReadTimeout)) {
			r.endReading(of, &checkpoint.Snapshot{ListedAt: of.Begun, Failure: &checkpoint.Failure{
				Kind: checkpoint.Unreachable, Message: "reading the store took longer than a minute"}})
		}
	}
	r.waited(nil, false)
}

// dryRun is what the API server says to the creation of a child; nil: it does not
// answer.
func (r *Runner) dryRun(parent *v1beta1.ResumableTrainingJob, child *compose.Child) *compose.LaunchProbe {
	probe := &compose.LaunchProbe{JobSet: child.Name}
	object, err := child.Render()
	if err != nil {
		return nil
	}
	meta := copied(object["metadata"])
	object["metadata"] = meta
	meta["namespace"] = parent.Namespace
	owner := metav1.NewControllerRef(parent, v1beta1.GroupVersion.WithKind(v1beta1.Kind))
	meta["ownerReferences"] = []any{map[string]any{
		"apiVersion": owner.APIVersion, "kind": owner.Kind, "name": owner.Name, "uid": string(owner.UID), "controller": true, "blockOwnerDeletion": true,
	}}
	_, err = r.API.Clone(r.Now).Create(r.Name, object)
	switch {
	case apierrors.IsAlreadyExists(err):
		live := r.API.Get(child.Kind, parent.Namespace, child.Name)
		if by := live.Owner(); by != string(parent.UID) {
			probe.Foreign, probe.Refused = true, fmt.Sprintf("a JobSet %s exists and is %s's", child.Name, ownerName(live))
		}
	case err != nil:
		probe.Refused = err.Error()
	}
	return probe
}

func ownerName(o *apiserver.Object) string {
	if o.Owner() == "" {
		return "nobody"
	}
	return o.Owner()
}

// readingsNext is when readings and answers that wait for them are due.
func (r *Runner) readingsNext() (next time.Time) {
	for _, of := range r.readings {
		next = soonest(next, of.Begun.Add(edge.ReadTimeout))
	}
	for _, j := range r.jobs {
		if f := j.flight; f != nil && f.reading != nil {
			next = soonest(next, f.patience)
		}
	}
	return next
}
