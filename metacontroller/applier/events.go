package applier

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// Events is told what people should find with kubectl describe. It is called
// while a parent is synced, so it must not wait for anything; it may drop, gather
// and delay what it is told.
type Events interface {
	// Event is about an object that exists. The type is EventNormal or
	// EventWarning, the reason one CamelCase word, the message one line of at most
	// MaxEventMessage bytes.
	Event(object *unstructured.Unstructured, eventType, reason, message string)
}

// The types of events.
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)

// The reasons of events about a parent whose sync failed. Events about a
// condition have the condition's reason.
const (
	// ReasonSyncError: a hook or the API server failed. Metacontroller uses the
	// same reason.
	ReasonSyncError = "SyncError"
	// ReasonResponseRefused: the answer of a hook cannot be understood, is too large,
	// or asks for what cannot be done, so nothing of it was done.
	ReasonResponseRefused = "ResponseRefused"
	// ReasonOwnershipConflict: a child exists already and is not the parent's.
	ReasonOwnershipConflict = "OwnershipConflict"
)

// MaxEventMessage is how long the message of an event can be, in bytes.
const MaxEventMessage = 1000

// reportFailure tells of a sync that failed, with one event for each reason.
func (a *Applier) reportFailure(key types.NamespacedName, faults []error) {
	parent := a.parents.get(key.Namespace, key.Name)
	if a.events == nil || parent == nil {
		return
	}
	messages := map[string][]string{}
	for _, fault := range faults {
		var failure *Failure
		var conflict *plan.OwnershipConflict
		reason := ReasonSyncError
		switch {
		case errors.As(fault, &failure) && (failure.Cause == CauseAnswer || failure.Cause == CauseTooLarge):
			reason = ReasonResponseRefused
		case errors.As(fault, &conflict):
			reason = ReasonOwnershipConflict
		}
		messages[reason] = append(messages[reason], firstLine(fault.Error()))
	}
	for _, reason := range []string{ReasonResponseRefused, ReasonOwnershipConflict, ReasonSyncError} {
		if list := messages[reason]; len(list) > 0 {
			a.events.Event(parent.Unstructured, EventWarning, reason, EventMessage(strings.Join(list, "; ")))
		}
	}
}

// reportConditions tells what a write of the status changed in its conditions.
func (a *Applier) reportConditions(before, after *plan.Object) {
	if a.events == nil {
		return
	}
	for _, c := range changedConditions(before, after) {
		eventType := EventNormal
		if a.warnings[c.kind] == c.status {
			eventType = EventWarning
		}
		text := c.kind + "=" + c.status
		if c.message != "" {
			text += ": " + c.message
		}
		a.events.Event(after.Unstructured, eventType, c.reason, EventMessage(text))
	}
}

// condition is one of metav1.Condition's form.
type condition struct{ kind, status, reason, message string }

func conditionsOf(o *plan.Object) []condition {
	field, _, err := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, ok := field.([]any)
	if err != nil || !ok {
		return nil
	}
	var conditions []condition
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string {
			value, _ := m[key].(string)
			return value
		}
		if c := (condition{text("type"), text("status"), text("reason"), text("message")}); c.kind != "" && c.status != "" {
			c.reason = cmp.Or(c.reason, c.kind)
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// changedConditions returns the conditions that have another status or reason
// than before. A condition that appears without being True is no change: it says
// what was so all along; only Ready then says what the object waits for. Several
// that changed for one reason are one change. Reconciling is the other side of Ready
// (kstatus) and is told of only without it.
func changedConditions(before, after *plan.Object) []condition {
	was := map[string]condition{}
	for _, c := range conditionsOf(before) {
		was[c.kind] = c
	}
	is := conditionsOf(after)
	hasReady := slices.ContainsFunc(is, func(c condition) bool { return c.kind == "Ready" })
	var changed []condition
	for _, c := range is {
		old, known := was[c.kind]
		switch {
		case hasReady && c.kind == "Reconciling":
		case known && old.status == c.status && old.reason == c.reason:
		case !known && c.status != "True" && c.kind != "Ready":
		default:
			changed = append(changed, c)
		}
	}
	slices.SortStableFunc(changed, func(x, y condition) int { return rank(x) - rank(y) })
	told := map[string]bool{}
	return slices.DeleteFunc(changed, func(c condition) bool {
		seen := told[c.reason]
		told[c.reason] = true
		return seen
	})
}

// rank puts what a person should hear of first: what is stuck, then what is true.
func rank(c condition) int {
	switch {
	case c.status == "True" && c.kind == "Stalled":
		return 0
	case c.kind == "Ready":
		return 1
	case c.status == "True":
		return 2
	default:
		return 3
	}
}

// warningConditions reads the annotation [WarningsAnnotation].
func warningConditions(annotation string) (map[string]string, error) {
	if annotation == "" {
		annotation = defaultWarnings
	}
	warnings := map[string]string{}
	for item := range strings.SplitSeq(annotation, ",") {
		kind, status, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok || kind == "" || status != "True" && status != "False" && status != "Unknown" {
			return nil, fmt.Errorf(`want conditions such as "Stalled=True,Reachable=False", got %q`, item)
		}
		warnings[kind] = status
	}
	return warnings, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// EventMessage makes a text one line of at most MaxEventMessage bytes.
func EventMessage(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	const more = " ..."
	if len(text) <= MaxEventMessage {
		return text
	}
	end := MaxEventMessage - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
