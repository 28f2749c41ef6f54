package world

import (
	"rtj.dev/rtj/compose"
)

// decisions are the rules that matched, and which came after which.
type decisions struct {
	calls int
	rules []string
	// last is the rule that matched last, by job and table.
	last map[string]string
}

// decided is told of every decision.
func (w *World) decided(_ string, o *compose.Observation, d *compose.Decision) {
	if !w.record {
		return
	}
	w.decisions.calls++
	if w.decisions.last == nil {
		w.decisions.last = map[string]string{}
	}
	for _, match := range d.Rules {
		rule := match.Table + " " + match.Rule
		w.decisions.rules = append(w.decisions.rules, rule)
		key := o.Parent.Name + " " + match.Table
		if before := w.decisions.last[key]; before != "" && before != match.Rule {
			w.decisions.rules = append(w.decisions.rules, match.Table+" "+before+" > "+match.Rule)
		}
		w.decisions.last[key] = match.Rule
	}
}

// takeDecided returns what was decided since the last call.
func (w *World) takeDecided() (rules []string, calls int) {
	rules, calls = w.decisions.rules, w.decisions.calls
	w.decisions.rules, w.decisions.calls = nil, 0
	return rules, calls
}
