package runner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/patch"
	"rtj.dev/rtj/test/world/apiserver"
)

// patching are the patches of one job.
type patching struct {
	patch.Job
	// next is the newest decision's, and waits until the round that goes on is over.
	next   []compose.Patch
	waits  bool
	round  []compose.Patch
	making patch.Making
	busy   bool
	worst  patch.Result
	// pace says what comes when nothing else does, at until.
	pace  patch.Pace
	until time.Time
}

func (p *patching) clone() *patching {
	c := *p
	return &c
}

// submit hands over the patches of the newest decision about a job.
func (r *Runner) submit(parent *v1beta1.ResumableTrainingJob, patches []compose.Patch) {
	i := slices.IndexFunc(r.patching, func(p *patching) bool { return p.UID == parent.UID })
	if i < 0 {
		if len(patches) == 0 {
			return
		}
		i = len(r.patching)
		r.patching = append(r.patching, &patching{Job: patch.Job{Namespace: parent.Namespace, Name: parent.Name, UID: parent.UID}})
	}
	p := r.patching[i]
	p.next, p.waits = patches, true
	r.patchOn(p)
}

// patchOn goes on to the next request, or to the next round.
func (r *Runner) patchOn(p *patching) {
	for {
		if p.busy {
			if p.making.Next() != "" {
				return
			}
			p.worst, p.busy = patch.Worse(p.worst, p.making.Result), false
			if r.Patched != nil {
				r.Patched(p.making.Patch.Name, p.making.Result)
			}
		}
		switch {
		case len(p.round) > 0:
			p.making, p.busy = patch.Make(p.Job, p.round[0], r.made, r.Now()), true
			p.round = p.round[1:]
		case p.worst != "":
			p.pace.After(p.worst)
			p.until, p.worst = r.Now().Add(p.pace.Wait), ""
		case p.waits:
			p.round, p.next, p.waits, p.worst = p.next, nil, false, patch.Done
		default:
			return
		}
	}
}

// patchesDue does what the pace of patches says that is due.
func (r *Runner) patchesDue() {
	now := r.Now()
	r.patching = slices.DeleteFunc(r.patching, func(p *patching) bool {
		if p.busy || now.Before(p.until) {
			return false
		}
		if !p.pace.Again {
			return true
		}
		p.pace.Waited()
		p.until = now.Add(p.pace.Wait)
		r.Enqueue(p.Namespace, p.Name)
		return false
	})
}

// look makes the live reads that a patch depends on: the job, and the LIST. Where
// they are refused, the patch is not made.
func (r *Runner) look(p *patching, fate fate) {
	for {
		if fate == refused {
			err := apierrors.NewInternalError(errors.New("the server is in trouble"))
			if p.making.Next() == patch.Read {
				p.making.Read(nil, err)
			} else {
				p.making.Listed(false, err)
			}
		}
		switch p.making.Next() {
		case patch.Read:
			p.making.Read(r.readJob(p.Job))
		case patch.List:
			p.making.Listed(r.left(p.making.Patch.NoLivePods))
		default:
			r.patchOn(p)
			return
		}
	}
}

func (r *Runner) readJob(j patch.Job) (*unstructured.Unstructured, error) {
	live := r.API.Get(parents.name(), j.Namespace, j.Name)
	if live == nil {
		return nil, apierrors.NewNotFound(watched[parents].Resource.GroupResource(), j.Name)
	}
	return planned(live).Unstructured, nil
}

// left is the LIST.
func (r *Runner) left(condition *compose.NoLivePods) (bool, error) {
	byLabel, err := labels.Parse(condition.LabelSelector)
	if err != nil {
		return false, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(condition.FieldSelector)
	if err != nil {
		return false, apierrors.NewBadRequest(err.Error())
	}
	for _, o := range r.API.List(jobs.name()) {
		if o.Namespace == condition.Namespace && byLabel.Matches(labels.Set(planned(o).GetLabels())) && patch.MayMakePods(planned(o).Unstructured) {
			return true, nil
		}
	}
	for _, o := range r.API.List(pods.name()) {
		if o.Namespace == condition.Namespace && byLabel.Matches(labels.Set(planned(o).GetLabels())) &&
			byField.Matches(fields.Set{"status.phase": o.Text("status", "phase"), "metadata.name": o.Name}) {
			return true, nil
		}
	}
	return false, nil
}

// sendPatch sends the patch itself.
func (r *Runner) sendPatch(p *patching, fate fate) {
	q, err := r.requestOfPatch(p)
	if err == nil {
		_, err = r.send(q, fate)
	}
	p.making.Sent(err, r.made, r.Now())
	r.patchOn(p)
}

func (r *Runner) requestOfPatch(p *patching) (request, error) {
	target := p.making.Patch.Target
	k, ok := byResource(target.Resource)
	if !ok || watched[k].Resource.GroupVersion().String() != target.APIVersion {
		return request{}, fmt.Errorf("the world has no %s of %s", target.Resource, target.APIVersion)
	}
	by := r.Name
	text := p.making.Patch.Body
	return request{r.nameOfPatch(p), p.making.Patch, func(api *apiserver.Server) (*apiserver.Object, error) {
		var body map[string]any
		if err := utiljson.Unmarshal(text, &body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return api.Patch(by, k.name(), target.Namespace, target.Name, body, target.Subresource)
	}}, nil
}

func (r *Runner) nameOfPatch(p *patching) string {
	target := p.making.Patch.Target
	return r.Name + ": patch " + p.making.Patch.Name + " " + target.Namespace + "/" + target.Name
}
