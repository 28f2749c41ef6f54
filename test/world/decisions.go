package world

import (
	"rtj.dev/rtj/compose"
)

// decision is one rule that matched.
type decision struct{ job, table, rule string }

// decisions are the rules that matched, in order, since somebody asked.
type decisions struct {
	calls int
	rules []decision
}

// decided is told of every decision.
func (w *World) decided(_ string, o *compose.Observation, d *compose.Decision) {
	if !w.record {
		return
	}
	w.decisions.calls++
	for _, match := range d.Rules {
		w.decisions.rules = append(w.decisions.rules, decision{o.Parent.Name, match.Table, match.Rule})
	}
}

// takeDecided returns what was decided since the last call.
func (w *World) takeDecided() (rules []decision, calls int) {
	rules, calls = w.decisions.rules, w.decisions.calls
	w.decisions = decisions{}
	return rules, calls
}
