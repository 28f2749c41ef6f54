package kueue

import (
	"slices"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// write is a status that was decided upon. The scheduler's carry no resourceVersion:
// whatever Kueue manages becomes what it was in the view that it was decided in.
type write struct {
	what string
	// blocks: the scheduler does nothing else until it is done.
	blocks bool
	// admits: if it fails, the quota is free again.
	admits bool
	view   *apiserver.Object
	status *status
}

// later writes now, or as an event of its own.
func (k *Kueue) later(w write) {
	if k.config.Late {
		k.writes = append(slices.Clip(k.writes), w)
		return
	}
	k.do(w)
}

func (k *Kueue) writeEvents(add func(event.Event)) {
	for i := range k.writes {
		what := k.writes[i].what
		add(event.Event{Name: "kueue: " + what, Do: func() { k.doLate(what) }})
	}
}

func (k *Kueue) doLate(what string) {
	i := slices.IndexFunc(k.writes, func(w write) bool { return w.what == what })
	if i < 0 {
		return
	}
	w := k.writes[i]
	k.writes = slices.Delete(slices.Clone(k.writes), i, i+1)
	k.do(w)
}

func (k *Kueue) do(w write) {
	k.observe()
	err := k.apply(w.view, w.status)
	known := k.workload(w.view)
	if err == nil || !w.admits || known == nil {
		return
	}
	// Refused: it goes back to the head of the queue, as it is now.
	known.counted = nil
	k.planned = false
	if admissible(known.seen) {
		k.enqueue(known, nil)
	}
}

// apply makes a status so by server-side apply: what it has is set, whatever it was; what
// Kueue had set, has not changed since and is no more, goes; all else stays.
func (k *Kueue) apply(view *apiserver.Object, s *status) error {
	now := k.API.Get(view.Kind, view.Namespace, view.Name)
	if now == nil || now.UID != view.UID {
		return errGone
	}
	sent := s.managed()
	known := k.workload(view)
	var before map[string]any
	if known != nil {
		before = known.sent
	}
	_, err := k.API.Update(by, now, apiserver.Status, func(body map[string]any) {
		is, _ := body["status"].(map[string]any)
		if is == nil {
			is = map[string]any{}
			body["status"] = is
		}
		for _, key := range fields {
			if value, ok := sent[key]; ok {
				is[key] = value
			} else if old, ok := before[key]; ok && apiserver.Same(is[key], old) {
				delete(is, key)
			}
		}
		is["conditions"] = applyConditions(is["conditions"], sent["conditions"], before["conditions"])
		if checks, ok := sent["admissionChecks"]; ok {
			is["admissionChecks"] = applyChecks(is["admissionChecks"], checks)
		}
	})
	if err == nil && known != nil {
		known.sent = sent
	}
	return err
}

// fields of a Workload's status that every apply has, beside the lists.
var fields = []string{"admission", "requeueState", "accumulatedPastExecutionTimeSeconds"}

func applyConditions(is, sent, before any) []any {
	list, _ := is.([]any)
	var next []any
	for _, item := range list {
		c, _ := item.(map[string]any)
		kind := c["type"]
		if ours := conditionIn(sent, kind); ours != nil {
			next = append(next, any(ours))
			continue
		}
		if old := conditionIn(before, kind); old != nil && apiserver.Same(old, c) {
			continue
		}
		next = append(next, item)
	}
	for _, c := range objects(sent) {
		if conditionIn(is, c["type"]) == nil {
			next = append(next, any(c))
		}
	}
	return next
}

func applyChecks(is, sent any) []any {
	list, _ := is.([]any)
	next := slices.Clone(list)
	for _, c := range objects(sent) {
		i := slices.IndexFunc(next, func(item any) bool {
			m, _ := item.(map[string]any)
			return m["name"] == c["name"]
		})
		if i < 0 {
			next = append(next, any(c))
		} else {
			next[i] = c
		}
	}
	return next
}

func conditionIn(list any, kind any) map[string]any {
	for _, c := range objects(list) {
		if c["type"] == kind {
			return c
		}
	}
	return nil
}
