package kueue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// States of an admission check.
const (
	checkPending  = "Pending"
	checkReady    = "Ready"
	checkRetry    = "Retry"
	checkRejected = "Rejected"
)

// requiredChecks are those that apply to an admission, or, without one, those that apply
// whatever the flavor will be.
func requiredChecks(cluster *apiserver.Object, admission any) (names []string) {
	q := quotaOf(cluster)
	var given []string
	a, _ := admission.(map[string]any)
	for _, set := range objects(a["podSetAssignments"]) {
		flavors, _ := set["flavors"].(map[string]any)
		for _, flavor := range flavors {
			name, _ := flavor.(string)
			given = append(given, name)
		}
	}
	all := q.flavorNames()
	for _, check := range q.checks {
		applies := check.flavors
		if len(applies) == 0 {
			applies = all
		}
		in := func(flavor string) bool { return slices.Contains(applies, flavor) }
		if a != nil && slices.ContainsFunc(given, in) || a == nil && !slices.ContainsFunc(all, func(f string) bool { return !in(f) }) {
			names = append(names, check.name)
		}
	}
	slices.Sort(names)
	return names
}

// syncChecks has the Workload list the checks that apply to it.
func (k *Kueue) syncChecks(o, cluster *apiserver.Object) *act {
	names := requiredChecks(cluster, o.At("status", "admission"))
	was := objects(o.At("status", "admissionChecks"))
	var next []any
	changed := len(was) != len(names)
	for _, name := range names {
		i := slices.IndexFunc(was, func(c map[string]any) bool { return c["name"] == name })
		if i >= 0 {
			next = append(next, any(was[i]))
			continue
		}
		changed = true
		next = append(next, map[string]any{"name": name, "state": checkPending, "message": "", "lastTransitionTime": stamp(k.Now())})
	}
	if !changed {
		return nil
	}
	// An update, not an apply: it also takes away.
	return &act{what: "list the checks of", update: func(body map[string]any) {
		if len(next) == 0 {
			delete(body, "admissionChecks")
			return
		}
		body["admissionChecks"] = next
	}}
}

func (k *Kueue) reconcileFailedChecks(o *apiserver.Object) *act {
	if o.True(evicted) || !failedChecks(o) {
		return nil
	}
	if rejected := checksMessage(o, checkRejected); rejected != "" {
		s := k.status(o)
		if !s.set(deactivationTarget, "True", AdmissionCheck, rejected, o.Generation) {
			return nil
		}
		return &act{what: "reject", status: s}
	}
	return &act{what: "evict", status: k.eviction(o, AdmissionCheck, "Evicted due to "+checksMessage(o, checkRetry), nil)}
}

func checksMessage(o *apiserver.Object, state string) string {
	var parts []string
	for _, c := range objects(o.At("status", "admissionChecks")) {
		if c["state"] != state {
			continue
		}
		part := fmt.Sprintf("%q", c["name"])
		if message, _ := c["message"].(string); message != "" {
			part += " (" + message + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ""
	}
	noun := "AdmissionCheck"
	if len(parts) > 1 {
		noun += "s"
	}
	slices.Sort(parts)
	return fmt.Sprintf("%s in %s state: %s", noun, state, strings.Join(parts, "; "))
}

// resetChecks has every check begin anew.
func (s *status) resetChecks() {
	var next []any
	changed := false
	for _, c := range objects(s.body["admissionChecks"]) {
		if c["state"] == checkPending {
			next = append(next, any(c))
			continue
		}
		changed = true
		fresh := map[string]any{
			"name": c["name"], "state": checkPending, "lastTransitionTime": stamp(s.now),
			"message": fmt.Sprintf("Reset to Pending after eviction. Previously: %v", c["state"]),
		}
		if after, ok := c["requeueAfterSeconds"]; ok {
			fresh["requeueAfterSeconds"] = after
		}
		if c["state"] == checkRetry {
			count, _ := number(c["retryCount"])
			fresh["retryCount"] = count + 1
		}
		next = append(next, fresh)
	}
	if changed {
		s.body["admissionChecks"] = next
	}
}

// retryAt is when the checks that failed want another try; zero: they do not say.
func retryAt(o *apiserver.Object) (at time.Time) {
	for _, c := range objects(o.At("status", "admissionChecks")) {
		after, ok := number(c["requeueAfterSeconds"])
		if !ok || c["state"] != checkRetry {
			continue
		}
		if t := transition(c).Add(time.Duration(after) * time.Second); t.After(at) {
			at = t
		}
	}
	return at
}

// checkEvents are the answers of the checks' controllers, which ask once quota is
// reserved.
func (k *Kueue) checkEvents(add func(event.Event)) {
	for i := range k.workloads {
		o := k.workloads[i].seen
		if !o.True(quotaReserved) || o.True(evicted) || finished(o) || !active(o) {
			continue
		}
		for _, c := range objects(o.At("status", "admissionChecks")) {
			name, _ := c["name"].(string)
			if c["state"] != checkPending && c["state"] != checkReady {
				continue
			}
			for _, state := range []string{checkReady, checkRetry, checkRejected} {
				if c["state"] == state {
					continue
				}
				add(event.Event{Name: fmt.Sprintf("check %s: %s for %s", name, state, o.Key()), Fault: state != checkReady,
					Do: func() { _ = k.Check(o.Namespace, o.Name, name, state) }})
			}
		}
	}
}

// Check has the controller of a check answer: Ready with what the configuration has it
// add to the pods, Retry, Rejected or Pending.
func (k *Kueue) Check(namespace, name, check, state string) error {
	o, err := k.get(namespace, name)
	if err != nil {
		return err
	}
	found := false
	_, err = k.API.Update("check "+check, o, apiserver.Status, func(body map[string]any) {
		for _, c := range objects(body["status"].(map[string]any)["admissionChecks"]) {
			if c["name"] != check {
				continue
			}
			found = true
			if c["state"] != state {
				c["lastTransitionTime"] = stamp(k.Now())
			}
			c["state"], c["message"] = state, ""
			delete(c, "podSetUpdates")
			if updates := k.config.Checks[check]; state == checkReady && len(updates) > 0 {
				c["podSetUpdates"] = updates
			}
		}
	})
	if err == nil && !found {
		return fmt.Errorf("the Workload %s has no admission check %s", o.Key(), check)
	}
	return err
}
