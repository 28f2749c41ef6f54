package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/hooks/patch"
	"rtj.dev/rtj/test/scenario"
	"rtj.dev/rtj/test/world/apiserver"
)

// maxRounds is how many syncs a change may take to settle.
const maxRounds = 20

// settle syncs until nothing is written any more, and tells what was decided.
func (w *world) settle() (string, error) {
	if w.job() == nil {
		return "there is no job\n", nil
	}
	var out strings.Builder
	var last string
	for range maxRounds {
		round, wrote, answer, err := w.sync()
		if err != nil {
			return "", err
		}
		if !wrote && round == last {
			round = ""
		}
		out.WriteString(round)
		if last = round; wrote {
			continue
		}
		if out.Len() == 0 {
			out.WriteString("nothing\n")
		}
		if answer.Response.ResyncAfterSeconds > 0 {
			fmt.Fprintf(&out, "again in %gs\n", math.Round(10*answer.Response.ResyncAfterSeconds)/10)
		}
		return out.String(), nil
	}
	return "", fmt.Errorf("still writing after %d syncs:\n%s", maxRounds, out.String())
}

// sync runs the hook once and applies what it decided. It tells what was decided
// and whether anything was written.
func (w *world) sync() (string, bool, *hooks.Answer, error) {
	request, err := w.request()
	if err != nil {
		return "", false, nil, err
	}
	if w.asked != nil {
		w.asked(request)
	}
	answer, err := w.hooks.Answer(context.Background(), request, request.Finalizing)
	if err != nil {
		return "", false, nil, err
	}
	if _, err := contract.DecodeSyncResponse(answer.Response.AppendJSON(nil)); err != nil {
		return "", false, nil, fmt.Errorf("a runner refuses the answer: %w", err)
	}
	w.hooks.Patch(answer)
	var out strings.Builder
	out.WriteString(w.tellRules(answer.Decision.Rules))
	changes, err := scenario.Changes(request.Children, answer.Decision, answer.Response)
	if err != nil {
		return "", false, nil, err
	}
	wrote := false
	for _, item := range changes {
		text, did, err := w.applyChild(item.(object))
		if err != nil {
			return "", false, nil, err
		}
		out.WriteString(text)
		wrote = wrote || did
	}
	text, did, err := w.applyStatus(answer)
	if err != nil {
		return "", false, nil, err
	}
	out.WriteString(text)
	wrote = wrote || did
	if answer.Response.Finalized {
		out.WriteString("finalized\n")
		err := w.letGo()
		return out.String(), false, answer, err
	}
	for _, p := range w.patches {
		result, before, after, err := w.carryOut(p)
		if err != nil {
			return "", false, nil, err
		}
		switch result {
		case patch.Done:
			wrote = true
			fmt.Fprintf(&out, "patch %s: %s\n", p.Name, tellChange(before.Body, after.Body))
		case patch.PodsLeft:
			fmt.Fprintf(&out, "patch %s: not made, pods are left\n", p.Name)
		case patch.Lost:
			// To a write of this very round, after which the next one decides.
			if !wrote {
				return "", false, nil, fmt.Errorf("patch %s does not fit the object that it was made for: %s", p.Name, p.Body)
			}
		}
	}
	w.patches = nil
	return out.String(), wrote, answer, nil
}

// applyChild does what happens to one child.
func (w *world) applyChild(change object) (string, bool, error) {
	switch {
	case change["create"] != nil:
		place := change["create"].(string)
		o, err := w.api.Create(byUs, w.owned(change["object"].(object)))
		if apierrors.IsForbidden(err) {
			return "create " + place + ": refused\n", false, nil
		}
		if err != nil {
			return "", false, err
		}
		return "create " + place + tellNew(o.Body) + "\n", true, nil
	case change["update"] != nil:
		place := change["update"].(string)
		o := w.find(place)
		if o == nil {
			return "", false, fmt.Errorf("%s is updated, and it does not exist", place)
		}
		body := change["patch"].(object)
		text, err := scenario.Line(body)
		if err != nil {
			return "", false, err
		}
		_, err = w.api.Patch(byUs, o.Kind, o.Namespace, o.Name, body, "")
		return "update " + place + " " + text + "\n", true, err
	case change["delete"] != nil:
		place := change["delete"].(string)
		return "delete " + place + "\n", true, w.remove(place, byUs)
	}
	return "", false, nil
}

// remove deletes an object in the background. What it owned goes after it; pods stay
// until their kubelets have ended them.
func (w *world) remove(place, by string) error {
	o := w.find(place)
	if o == nil {
		return fmt.Errorf("there is no %s", place)
	}
	err := w.api.Delete(by, o.Kind, o.Namespace, o.Name, apiserver.Deletion{UID: o.UID})
	w.collect()
	return err
}

// letGo takes the finalizer away, after which the job is gone.
func (w *world) letGo() error {
	_, err := w.api.Patch(byUs, v1beta1.Kind, namespace, jobName, object{"metadata": object{"finalizers": nil}}, "")
	w.collect()
	return err
}

// applyStatus stores the status and tells what is new in it.
func (w *world) applyStatus(answer *hooks.Answer) (string, bool, error) {
	var after object
	if err := utiljson.Unmarshal(answer.Response.Status, &after); err != nil {
		return "", false, err
	}
	if after == nil {
		return "", false, errors.New("the answer has no status")
	}
	job := w.job()
	before, _ := job.At("status").(object)
	change := scenario.Difference(before, after)
	if len(change) == 0 {
		return "", false, nil
	}
	text, err := tellStatus(before, after, change)
	if err != nil {
		return "", false, err
	}
	_, err = w.api.Update(byUs, job, apiserver.Status, func(body map[string]any) { body["status"] = after })
	return text, true, err
}
