package kueue

import (
	"errors"
	"maps"
	"slices"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

var errGone = errors.New("the Workload is gone")

// status is the status of a Workload in the making.
type status struct {
	now        time.Time
	generation int64
	body       map[string]any
}

// status starts from what a version has. Values are replaced, never changed.
func (k *Kueue) status(o *apiserver.Object) *status {
	body, _ := o.At("status").(map[string]any)
	body = maps.Clone(body)
	if body == nil {
		body = map[string]any{}
	}
	conditions, _ := body["conditions"].([]any)
	body["conditions"] = slices.Clone(conditions)
	return &status{now: k.Now(), generation: o.Generation, body: body}
}

// managed is the part that Kueue writes.
func (s *status) managed() map[string]any {
	sent := map[string]any{}
	for _, key := range append(slices.Clip(fields), "admissionChecks") {
		if value := s.body[key]; value != nil {
			sent[key] = value
		}
	}
	if state, ok := sent["requeueState"].(map[string]any); ok && len(state) == 0 {
		delete(sent, "requeueState")
	}
	var conditions []any
	for _, kind := range managed {
		if c := s.condition(kind); c != nil {
			conditions = append(conditions, any(c))
		}
	}
	sent["conditions"] = conditions
	return sent
}

func (s *status) condition(kind string) map[string]any {
	return conditionIn(s.body["conditions"], kind)
}

func (s *status) true(kind string) bool { return s.condition(kind)["status"] == "True" }

// set sets a condition and reports whether that changed anything. generation 0 is not
// written.
func (s *status) set(kind, value, reason, message string, generation int64) bool {
	c := map[string]any{
		"type": kind, "status": value, "reason": reason, "message": clip(message), "lastTransitionTime": stamp(s.now),
	}
	if generation != 0 {
		c["observedGeneration"] = generation
	}
	list, _ := s.body["conditions"].([]any)
	for i, item := range list {
		old, _ := item.(map[string]any)
		if old["type"] != kind {
			continue
		}
		if old["status"] == value {
			c["lastTransitionTime"] = old["lastTransitionTime"]
		}
		if apiserver.Same(old, c) {
			return false
		}
		list[i] = c
		return true
	}
	s.body["conditions"] = append(list, any(c))
	return true
}

func (s *status) remove(kind string) {
	list, _ := s.body["conditions"].([]any)
	s.body["conditions"] = slices.DeleteFunc(list, func(item any) bool {
		c, _ := item.(map[string]any)
		return c["type"] == kind
	})
}

// unreserve takes the quota back and reports whether anything changed.
func (s *status) unreserve(reason, message string) bool {
	changed := s.set(quotaReserved, "False", reason, message, s.generation)
	if s.body["admission"] != nil {
		delete(s.body, "admission")
		changed = true
	}
	return s.syncAdmitted() || changed
}

// syncAdmitted has Admitted follow the reservation and the checks, and adds the time it
// was admitted once it is no more.
func (s *status) syncAdmitted() bool {
	reserved, ready := s.true(quotaReserved), s.checksReady()
	was := s.condition(admitted)
	if s.true(admitted) == (reserved && ready) {
		return false
	}
	switch {
	case reserved && ready:
		return s.set(admitted, "True", "Admitted", "The workload is admitted", s.generation)
	case !reserved && !ready:
		s.set(admitted, "False", "NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready", s.generation)
	case !reserved:
		s.set(admitted, "False", "NoReservation", "The workload has no reservation", s.generation)
	default:
		s.set(admitted, "False", "UnsatisfiedChecks", "The workload has not all checks ready", s.generation)
	}
	past, _ := number(s.body["accumulatedPastExecutionTimeSeconds"])
	s.body["accumulatedPastExecutionTimeSeconds"] = past + int64(s.now.Sub(transition(was)).Seconds())
	return true
}

func (s *status) checksReady() bool {
	return !slices.ContainsFunc(objects(s.body["admissionChecks"]), func(c map[string]any) bool { return c["state"] != "Ready" })
}

func (s *status) hasChecks(names []string) bool {
	for _, name := range names {
		if !slices.ContainsFunc(objects(s.body["admissionChecks"]), func(c map[string]any) bool { return c["name"] == name }) {
			return false
		}
	}
	return true
}

// clip shortens a message to what Kueue lets a condition have.
func clip(text string) string {
	const most = 32 << 10
	if len(text) <= most {
		return text
	}
	return text[:most-3] + "..."
}

func generationOf(condition map[string]any) int64 {
	n, _ := number(condition["observedGeneration"])
	return n
}
