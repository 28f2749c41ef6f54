package hooks

import (
	"log/slog"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// logChange writes one line if the decision differs from the one before: the
// phase with its reason, and the rules that match now, each with the facts that
// it read.
func (h *Hooks) logChange(m *memory, o *compose.Observation, d *compose.Decision) {
	m.mu.Lock()
	before := m.said
	same := slices.EqualFunc(before, d.Rules, func(a, b compose.Match) bool { return a.Table == b.Table && a.Rule == b.Rule })
	if !same {
		m.said = d.Rules
	}
	m.mu.Unlock()
	if same {
		return
	}
	var changed []any
	for _, match := range d.Rules {
		if ruleOf(before, match.Table) == match.Rule {
			continue
		}
		text := match.Rule
		if match.Why != "" {
			text += ": " + match.Why
		}
		changed = append(changed, slog.String(match.Table, text))
	}
	for _, match := range before {
		if ruleOf(d.Rules, match.Table) == "" {
			changed = append(changed, slog.String(match.Table, "none"))
		}
	}
	attributes := []any{"namespace", o.Parent.Namespace, "name", o.Parent.Name}
	if s := d.Status; s != nil {
		attributes = append(attributes, "phase", s.Phase, "attempt", s.Attempt)
		if ready := readyCondition(s.Conditions); ready != nil {
			attributes = append(attributes, "reason", ready.Reason)
		}
	}
	h.logger.Info("decided", append(attributes, slog.Group("rules", changed...))...)
}

// ruleOf is the rule of a table that matched; empty: none did.
func ruleOf(rules []compose.Match, table string) string {
	for i := range rules {
		if rules[i].Table == table {
			return rules[i].Rule
		}
	}
	return ""
}

func readyCondition(conditions []metav1.Condition) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == v1beta1.ConditionReady {
			return &conditions[i]
		}
	}
	return nil
}
