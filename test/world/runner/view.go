package runner

import (
	"strconv"

	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/test/world/apiserver"
)

// view is what an instance sees of a kind: its objects as of a revision.
type view struct {
	revision int64
	objects  []*apiserver.Object
}

func (v *view) get(namespace, name string) *apiserver.Object {
	for _, o := range v.objects {
		if o.Name == name && o.Namespace == namespace {
			return o
		}
	}
	return nil
}

// views implement [plan.View].
type views struct{ *Runner }

// Get implements plan.View.
func (v views) Get(kind *plan.ChildKind, namespace, name string) *plan.Object {
	return planned(v.views[childKind(kind)].get(namespace, name))
}

// Revision implements plan.View.
func (v views) Revision(kind *plan.ChildKind) string {
	return strconv.FormatInt(v.views[childKind(kind)].revision, 10)
}

type planKey struct{}

// planned is an object as package plan has it.
func planned(o *apiserver.Object) *plan.Object {
	if o == nil {
		return nil
	}
	return o.Cached(planKey{}, func() any { return plan.Shared(o.Body, o.JSON) }).(*plan.Object)
}

// Seen is the revision that the view of a kind is as of.
func (r *Runner) Seen(name string) int64 {
	k, ok := byName(name)
	if !ok {
		return r.API.Revision()
	}
	return r.views[k].revision
}

// See has the view of a kind move forward to a revision, and syncs the jobs that
// the changes concern. What was in between is never seen.
func (r *Runner) See(name string, revision int64) {
	if k, ok := byName(name); ok {
		r.see(k, revision)
	}
}

func (r *Runner) see(k kind, revision int64) {
	was := r.views[k]
	if r.down || revision <= was.revision {
		return
	}
	is := view{revision, r.API.View(k.name(), revision)}
	r.views[k] = is
	old, next := was.objects, is.objects
	for len(old) > 0 || len(next) > 0 {
		switch order := compare(old, next); {
		case order < 0:
			r.changed(k, old[0], nil)
			old = old[1:]
		case order > 0:
			r.changed(k, nil, next[0])
			next = next[1:]
		default:
			if old[0] != next[0] {
				r.changed(k, old[0], next[0])
			}
			old, next = old[1:], next[1:]
		}
	}
}

// compare tells which of two sorted lists has the smaller first key.
func compare(a, b []*apiserver.Object) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	case a[0].Namespace != b[0].Namespace && a[0].Namespace < b[0].Namespace, a[0].Namespace == b[0].Namespace && a[0].Name < b[0].Name:
		return -1
	case a[0].Namespace == b[0].Namespace && a[0].Name == b[0].Name:
		return 0
	}
	return 1
}

// changed enqueues the jobs that a change in a view concerns, as the applier does.
func (r *Runner) changed(k kind, before, after *apiserver.Object) {
	if k == parents && controller.ParentChanged(planned(before), planned(after)) {
		o := after
		if o == nil {
			o = before
		}
		r.job(keyOf(o)).queued = true
	}
	for _, o := range [...]*apiserver.Object{before, after} {
		if o == nil {
			continue
		}
		if workloads <= k && k <= configMaps && o.Label(plan.UIDLabel) != "" {
			r.childChanged(o)
		}
		for _, j := range r.jobs {
			if !j.queued && j.asksFor(k, o) {
				j.queued = true
			}
		}
	}
}

// childChanged enqueues the parent that controls an object or, if nothing does, the
// one that may adopt it. Objects without the label are not watched.
func (r *Runner) childChanged(o *apiserver.Object) {
	parent, ours, controlled := controller.ControllingParent(planned(o))
	if ours {
		r.job(parent).queued = true
	}
	if controlled {
		return
	}
	for _, p := range r.views[parents].objects {
		if p.UID == o.Label(plan.UIDLabel) {
			r.job(keyOf(p)).queued = true
		}
	}
}

// asksFor tells whether a job has related objects that one is among.
func (j *job) asksFor(k kind, o *apiserver.Object) bool {
	for _, rule := range j.rules {
		if rule.Kind.Resource == watched[k].Resource && rule.MayMatch(planned(o)) {
			return true
		}
	}
	return false
}

// catchUp has the views be current, where they do not lag.
func (r *Runner) catchUp() {
	if r.Lag || r.down || r.caughtUp == r.API.Revision() {
		return
	}
	r.caughtUp = r.API.Revision()
	for k := range kindCount {
		r.see(k, r.API.Changed(k.name()))
	}
}
