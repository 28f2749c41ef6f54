package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/hooks/edge"
	"rtj.dev/rtj/metacontroller/applier/plan"
)

// controllerJSON is what the hooks are told of the CompositeController.
var controllerJSON = func() json.RawMessage {
	text, err := json.Marshal(composite)
	if err != nil {
		panic(err)
	}
	return text
}()

// message is the request of the hook, as a runner sends it.
func (r *Runner) message(j *job) []byte {
	related := contract.ObjectMap{}
	for k := jobs; k < kindCount; k++ {
		for _, o := range r.relatedOf(j, k) {
			related.Set(watched[k].Key(), contract.ObjectKey(o.Namespace, o.Name), o.JSON())
		}
	}
	return j.flight.round.Request(controllerJSON, related).AppendJSON(nil)
}

// compareWithJSON makes the answer again, from the message to the plan, and tells
// where it differs.
func (r *Runner) compareWithJSON(j *job, resync time.Duration) {
	if err := r.differs(j, resync); err != nil {
		err = fmt.Errorf("%s: %s: through the messages of the hooks: %w", r.Name, j.NamespacedName, err)
		if r.Differs == nil {
			panic(err)
		}
		r.Differs(err)
	}
}

func (r *Runner) differs(j *job, resync time.Duration) error {
	f := j.flight
	fast, d := f.answering.Observation, f.answering.Decision
	request, err := contract.DecodeSyncRequest(f.message)
	if err != nil {
		return err
	}
	o, err := hooks.Observe(request)
	if err != nil {
		return err
	}
	o.Now, o.Observer, o.PodIntegration, o.Catalog, o.Launch = fast.Now, fast.Observer, fast.PodIntegration, fast.Catalog, fast.Launch
	again := edge.Decide(o, f.round.Finalizing)
	if err := same("patches", d.Patches, again.Patches); err != nil {
		return err
	}
	if err := same("rules", d.Rules, again.Rules); err != nil {
		return err
	}
	response, err := hooks.Respond(again, resync)
	if err != nil {
		return err
	}
	if response, err = contract.DecodeSyncResponse(response.AppendJSON(nil)); err != nil {
		return err
	}
	slow, err := plan.AnswerOf(response, f.parent.Namespace)
	if err != nil {
		return err
	}
	quick, err := answerOf(f, d, resync)
	if err != nil {
		return err
	}
	return same("plan", f.planOf(quick, fast), f.planOf(slow, fast))
}

// wholePlan is all that a round would write.
type wholePlan struct {
	Refused            string
	Deletions, Applied []plan.Wave
	LetGo, Status      *plan.Action
	Resync             time.Time
}

// planOf is what an answer would have written, if everything worked. It changes
// nothing.
func (f *flight) planOf(a *plan.Answer, o *compose.Observation) (p wholePlan) {
	m := f.round.Memory().Clone()
	round := f.round.Clone(m)
	if err := round.Decide(a, o.Now); err != nil {
		p.Refused = err.Error()
		return p
	}
	if round.Manages() {
		p.Deletions = round.Deletions()
		p.Applied, _ = round.Applications()
	}
	p.LetGo, p.Status, p.Resync = round.LetGo(true), round.Status(), m.ResyncAt
	return p
}

// same compares by bytes.
func same(what string, quick, slow any) error {
	a, err := json.Marshal(quick)
	if err != nil {
		return err
	}
	b, err := json.Marshal(slow)
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		return fmt.Errorf("another %s:\n  directly   %s\n  by message %s", what, a, b)
	}
	return nil
}
