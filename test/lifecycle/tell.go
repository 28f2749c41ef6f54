package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/metacontroller/applier/plan"
	"rtj.dev/rtj/test/scenario"
	"rtj.dev/rtj/test/world/apiserver"
)

// tellRules names the tables whose match changed.
func (w *world) tellRules(rules []compose.Match) string {
	var changed []string
	now := map[string]string{}
	for _, m := range rules {
		now[m.Table] = m.Rule
		if w.said[m.Table] != m.Rule {
			changed = append(changed, m.Table+" "+m.Rule)
		}
	}
	w.said = now
	if len(changed) == 0 {
		return ""
	}
	return "rules: " + strings.Join(changed, ", ") + "\n"
}

// tellWrite says what rtj wrote by a verb. A patch of a decision is called by its name,
// which stands in place of the kind.
func tellWrite(verb, called, kind string, was, is *apiserver.Object) (string, error) {
	switch {
	case verb == string(plan.Finalizer) && is == nil:
		return "finalized\n", nil
	case verb == string(plan.Finalizer):
		return "finalizer added\n", nil
	case verb == string(plan.Create):
		return "create " + place(is) + tellNew(is.Body) + "\n", nil
	case verb == string(plan.Delete):
		return "delete " + place(was) + "\n", nil
	case verb == string(plan.Status):
		before, _ := was.At("status").(object)
		after, _ := is.At("status").(object)
		return tellStatus(before, after, scenario.Difference(before, after))
	case verb == string(plan.Patch) && called == kind:
		change := scenario.Difference(was.Body, is.Body)
		for _, key := range []string{"resourceVersion", "generation"} {
			delete(metadata(change), key)
		}
		if len(metadata(change)) == 0 {
			delete(change, "metadata")
		}
		text, err := scenario.Line(change)
		return "update " + place(is) + " " + text + "\n", err
	}
	return fmt.Sprintf("patch %s: %s\n", called, tellChange(was.Body, is.Body)), nil
}

// tellNew says what matters of a child that is created.
func tellNew(o object) string {
	switch o["kind"] {
	case "JobSet":
		text := ""
		if below(o, "spec")["suspend"] == true {
			text = " suspended"
		}
		restore, _ := below(o, "metadata", "annotations")[v1beta1.AnnotationRestore].(string)
		if restore == "" {
			return text + ", starts fresh"
		}
		return text + ", restores " + restore
	case "ConfigMap":
		return fmt.Sprintf(" %v", below(o, "data")["control.json"])
	}
	return ""
}

// tellStatus says what is new in a status: the phase with its reason, and the
// facts that are remembered.
func tellStatus(before, after, change object) (string, error) {
	var out strings.Builder
	was, is := tellPhase(before), tellPhase(after)
	if was != is {
		fmt.Fprintf(&out, "phase %s -> %s\n", was, is)
	}
	for _, key := range []string{"attempt", "workloadNumber", "hold", "yield", "lastEnd", "failures", "forced", "podsEnding", "restoreFailures", "preemptions"} {
		value, ok := change[key]
		if !ok {
			continue
		}
		text := "gone"
		if value != nil {
			var err error
			if text, err = scenario.Line(after[key]); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(&out, "status.%s: %s\n", key, text)
	}
	return out.String(), nil
}

func tellPhase(status object) string {
	phase, _ := status["phase"].(string)
	if phase == "" {
		return "none"
	}
	ready := conditionOf(object{"status": status}, v1beta1.ConditionReady)
	return fmt.Sprintf("%s/%v", phase, ready["reason"])
}

// tellChange says what a patch changed: annotations by name, conditions by type,
// and other fields of status by name.
func tellChange(before, after object) string {
	var parts []string
	was, is := below(before, "metadata", "annotations"), below(after, "metadata", "annotations")
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if was[key] != is[key] {
			parts = append(parts, fmt.Sprintf("%s=%v", strings.TrimPrefix(key, "training.rtj.dev/"), is[key]))
		}
	}
	list, _ := below(after, "status")["conditions"].([]any)
	for _, item := range list {
		c := item.(object)
		old := conditionOf(before, c["type"].(string))
		if old["status"] != c["status"] || old["reason"] != c["reason"] {
			parts = append(parts, fmt.Sprintf("%v=%v/%v", c["type"], c["status"], c["reason"]))
		}
	}
	change := scenario.Difference(below(before, "status"), below(after, "status"))
	for _, key := range slices.Sorted(maps.Keys(change)) {
		switch {
		case key == "conditions":
		case change[key] == nil:
			parts = append(parts, key+" removed")
		default:
			text, err := scenario.Line(change[key])
			if err != nil {
				text = err.Error()
			}
			parts = append(parts, key+"="+text)
		}
	}
	return strings.Join(parts, " ")
}
