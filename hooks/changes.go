package hooks

import (
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// logChange writes one line if the decision differs from the one before: the
// phase with its reason, and the rules that match now, each with the facts that
// it read.
func (h *Hooks) logChange(m *memory, o *compose.Observation, d *compose.Decision) {
	now := make(map[string]string, len(d.Rules))
	for _, match := range d.Rules {
		now[match.Table] = match.Rule
	}
	m.mu.Lock()
	before := m.said
	m.said = now
	m.mu.Unlock()

	var changed []any
	for _, match := range d.Rules {
		if before[match.Table] != match.Rule {
			text := match.Rule
			if match.Why != "" {
				text += ": " + match.Why
			}
			changed = append(changed, slog.String(match.Table, text))
		}
	}
	for table, rule := range before {
		if _, ok := now[table]; !ok && rule != "" {
			changed = append(changed, slog.String(table, "none"))
		}
	}
	if len(changed) == 0 {
		return
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

func readyCondition(conditions []metav1.Condition) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == v1beta1.ConditionReady {
			return &conditions[i]
		}
	}
	return nil
}
