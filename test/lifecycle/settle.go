package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/hooks/patch"
	"rtj.dev/rtj/test/scenario"
)

// maxRounds is how many syncs a change may take to settle.
const maxRounds = 20

// settle syncs until nothing is written any more, and tells what was decided.
func (w *world) settle() (string, error) {
	if w.parent == nil {
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
		w.parent, w.children = nil, map[string]object{}
		return out.String(), false, answer, nil
	}
	for _, p := range w.patches {
		result, before, after, err := w.carryOut(p)
		if err != nil {
			return "", false, nil, err
		}
		switch result {
		case patch.Done:
			wrote = true
			fmt.Fprintf(&out, "patch %s: %s\n", p.Name, tellChange(before, after))
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
		if w.children[place] != nil {
			return "", false, fmt.Errorf("%s is created, and it exists", place)
		}
		o := copyOf(change["object"].(object))
		if o["kind"] == "JobSet" && w.refusal != "" {
			return "create " + place + ": refused\n", false, nil
		}
		below(o, "metadata", "labels")["controller-uid"] = metadata(w.parent)["uid"]
		w.create(o)
		w.children[place] = o
		return "create " + place + tellNew(o) + "\n", true, nil
	case change["update"] != nil:
		place := change["update"].(string)
		o := w.children[place]
		if o == nil {
			return "", false, fmt.Errorf("%s is updated, and it does not exist", place)
		}
		body := change["patch"].(object)
		for key, value := range mergePatch(o, body) {
			o[key] = value
		}
		if body["spec"] != nil {
			generation, _ := metadata(o)["generation"].(int64)
			metadata(o)["generation"] = generation + 1
		}
		w.touch(o)
		text, err := scenario.Line(body)
		return "update " + place + " " + text + "\n", true, err
	case change["delete"] != nil:
		place := change["delete"].(string)
		w.removeChild(place)
		return "delete " + place + "\n", true, nil
	}
	return "", false, nil
}

// removeChild deletes a child, and the Jobs of a JobSet with it. Pods stay until
// the script says otherwise.
func (w *world) removeChild(place string) {
	o := w.children[place]
	delete(w.children, place)
	if o == nil || o["kind"] != "JobSet" {
		return
	}
	for key, job := range w.related {
		if job["kind"] == "Job" && below(job, "metadata", "labels")["jobset.sigs.k8s.io/jobset-name"] == metadata(o)["name"] {
			delete(w.related, key)
		}
	}
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
	before := below(w.parent, "status")
	change := scenario.Difference(before, after)
	if len(change) == 0 {
		return "", false, nil
	}
	text, err := tellStatus(before, after, change)
	w.parent["status"] = after
	w.touch(w.parent)
	return text, true, err
}
