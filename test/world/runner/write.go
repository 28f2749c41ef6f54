package runner

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/test/world/apiserver"
)

// fate is what becomes of a request.
type fate int

const (
	// works: it is done and answered.
	works fate = iota
	// refused: the server answers with an error, and nothing is done.
	refused
	// lost: it is done, and the answer is lost: the client gives up.
	lost
	// twice: it is delivered twice, and the second answer is the one that comes.
	twice
	// late: the client gives up, and it is done later.
	late
)

// faults are the fates of requests where not everything works, with what they are
// called.
var faults = []struct {
	fate
	name string
}{{refused, "is refused"}, {lost, "is done, the answer is lost"}, {twice, "is delivered twice"}, {late, "is late"}}

// request is a write on its way.
type request struct {
	name string
	// what is it: a *plan.Action or a compose.Patch.
	what any
	send func(*apiserver.Server) (*apiserver.Object, error)
}

// errGaveUp is what a client has whose request was not answered in time.
var errGaveUp = fmt.Errorf("the request was not answered in time: %w", context.DeadlineExceeded)

// send sends a write.
func (r *Runner) send(q request, f fate) (*apiserver.Object, error) {
	switch f {
	case refused:
		return nil, apierrors.NewInternalError(fmt.Errorf("%s: the server is in trouble", q.name))
	case lost:
		if _, err := q.send(r.API); err != nil {
			return nil, errGaveUp
		}
		return nil, errGaveUp
	case twice:
		if _, err := q.send(r.API); err != nil {
			return nil, err
		}
		return q.send(r.API)
	case late:
		r.late = append(r.late, q)
		return nil, errGaveUp
	}
	return q.send(r.API)
}

// write does an action of a sync.
func (r *Runner) write(j *job, i int, fate fate) {
	f := j.flight
	a := f.pending[i]
	f.pending = append(f.pending[:i:i], f.pending[i+1:]...)
	written, err := r.do(j, a, fate)
	if o, ok := r.result(f, a, written, err); ok {
		next := o.Next
		if o.Err != nil {
			f.faults = append(f.faults, o.Err)
		}
		if next != nil {
			f.pending = append([]*plan.Action{next}, f.pending...)
		}
	}
	if f.oneAfterTheOther && len(f.faults) > 0 && f.stage <= asks {
		f.pending = nil // what comes before the hook stops at the first fault
	}
	if a.Verb == plan.Finalizer && f.stage > letsGo && len(f.faults) > 0 {
		f.stage = ended // the status waits for the next sync
	}
	r.goOn(j)
}

// result takes the answer to an action.
func (r *Runner) result(f *flight, a *plan.Action, written *apiserver.Object, err error) (plan.Outcome, bool) {
	if early, ok := err.(notSent); ok {
		f.faults = append(f.faults, early.error)
		return plan.Outcome{}, false
	}
	outcome := f.round.Done(a, planned(written), err, r.Now())
	if err == nil && written != nil {
		switch a.Verb {
		case plan.Finalizer:
			f.parent = written
		case plan.Adopt:
			f.adopted(written)
		}
	}
	return outcome, true
}

// notSent is why an action was not even tried.
type notSent struct{ error }

func (r *Runner) do(j *job, a *plan.Action, fate fate) (*apiserver.Object, error) {
	f := j.flight
	if err := a.Overtaken(views{r}); err != nil {
		return nil, notSent{err}
	}
	if a.CheckParent {
		live := r.API.Get(parents.name(), f.parent.Namespace, f.parent.Name)
		if live == nil {
			return nil, notSent{fmt.Errorf("reading the parent before adopting: %w", apierrors.NewNotFound(watched[parents].Resource.GroupResource(), f.parent.Name))}
		}
		if err := f.round.StillThere(planned(live)); err != nil {
			return nil, notSent{err}
		}
	}
	k := childKind(a.Kind)
	if a.Verb == plan.Look {
		if live := r.API.Get(k.name(), a.Namespace, a.Name); live != nil {
			return live, nil
		}
		return nil, apierrors.NewNotFound(watched[k].Resource.GroupResource(), a.Name)
	}
	return r.send(r.requestOf(k, a), fate)
}

// requestOf is the write of an action.
func (r *Runner) requestOf(k kind, a *plan.Action) request {
	by := r.Name
	return request{r.nameOf(a), a, func(api *apiserver.Server) (*apiserver.Object, error) {
		switch a.Verb {
		case plan.Create:
			return api.Create(by, a.Body)
		case plan.Delete:
			version, err := strconv.ParseInt(a.ResourceVersion, 10, 64)
			if err != nil {
				return nil, err
			}
			return nil, api.Delete(by, k.name(), a.Namespace, a.Name, apiserver.Deletion{UID: string(a.UID), Version: version, Propagation: apiserver.Background})
		case plan.Finalizer, plan.Adopt, plan.Release, plan.Patch, plan.Status:
			return api.Patch(by, k.name(), a.Namespace, a.Name, a.Body, a.Subresource)
		default:
			panic("the world has no " + string(a.Verb))
		}
	}}
}

// nameOf names the event of an action.
func (r *Runner) nameOf(a *plan.Action) string {
	name := r.Name + ": " + string(a.Verb) + " " + childKind(a.Kind).name() + " "
	if a.Namespace != "" {
		name += a.Namespace + "/"
	}
	return name + a.Name
}

// arrive does a request that was late.
func (r *Runner) arrive(i int) {
	q := r.late[i]
	r.late = append(r.late[:i:i], r.late[i+1:]...)
	// Whatever comes of it, nobody hears.
	_, _ = q.send(r.API)
}
