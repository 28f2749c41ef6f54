//go:build e2e

package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/kueue"
)

const gpu = "example.com/gpu"

// kueuePart sees Workloads and the queues.
func kueuePart(config kueue.Config) part {
	return part{
		actors: func(s *simulated, of []event.Actor) []event.Actor {
			env := kueue.Env{API: s.api, Now: s.now}
			if of == nil {
				return []event.Actor{kueue.New(env, config)}
			}
			return []event.Actor{of[0].(*kueue.Kueue).Clone(env)}
		},
		memory: func(actors []event.Actor, m *memory) { actors[0].(*kueue.Kueue).Fingerprint(m) },
		// Scripts answer for the checks.
		skip: func(name string) bool { return strings.HasPrefix(name, "check ") },
		// Kueue may learn too late that a ClusterQueue is stopped.
		missable: func(name string) bool { return strings.HasPrefix(name, "kueue: refuse, for its ClusterQueue,") },
		traced:   []string{"Workload"},
		state: map[string]func(object) string{
			"Workload": workloadState, "ClusterQueue": conditions, "LocalQueue": conditions,
		},
	}
}

// workloadState is what a Workload shows, without times.
func workloadState(o object) string {
	var parts []string
	if at(o, "spec", "active") == false {
		parts = append(parts, "inactive")
	}
	if p := at(o, "spec", "priority"); p != nil {
		parts = append(parts, fmt.Sprintf("priority=%v", p))
	}
	for _, a := range items(at(o, "status", "admission", "podSetAssignments")) {
		parts = append(parts, fmt.Sprintf("%v: %v of %s using %v", a["name"], a["count"], strings.Join(words(a["flavors"]), ","), words(a["resourceUsage"])))
	}
	if state, ok := at(o, "status", "requeueState").(object); ok {
		text := fmt.Sprintf("requeue count=%v", state["count"])
		if state["requeueAt"] != nil {
			text += " at"
		}
		parts = append(parts, text)
	}
	for _, c := range items(at(o, "status", "admissionChecks")) {
		parts = append(parts, fmt.Sprintf("check %v=%v updates=%d retries=%v", c["name"], c["state"], len(items(c["podSetUpdates"])), c["retryCount"]))
	}
	return strings.Join(append(parts, conditions(o)), "; ")
}

// words are a map's entries as "key=value", sorted.
func words(value any) (list []string) {
	m, _ := value.(object)
	for key, v := range m {
		list = append(list, fmt.Sprintf("%s=%v", key, v))
	}
	slices.Sort(list)
	return list
}

// scene is a script with a ClusterQueue and LocalQueue "queue".
type scene struct{ *lockstep }

// begin gives each flavor a quota of GPUs: "gold=4".
func begin(l *lockstep, quotas ...string) *scene {
	l.Helper()
	s := &scene{l}
	var flavors []any
	for _, q := range quotas {
		name, n, _ := strings.Cut(q, "=")
		s.make(object{"kind": "ResourceFlavor", "metadata": object{"name": s.named(name)}, "spec": object{"nodeLabels": object{"pool": name}}})
		flavors = append(flavors, object{"name": s.named(name), "resources": []any{object{"name": gpu, "nominalQuota": n}}})
	}
	s.make(object{"kind": "ClusterQueue", "metadata": object{"name": s.cluster()}, "spec": object{
		"namespaceSelector": object{}, "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
		"resourceGroups": []any{object{"coveredResources": []any{gpu}, "flavors": flavors}},
		"preemption":     object{"withinClusterQueue": "LowerPriority"},
	}})
	s.make(object{"kind": "LocalQueue", "metadata": object{"namespace": s.namespace(), "name": "queue"}, "spec": object{"clusterQueue": s.cluster()}})
	s.rest()
	return s
}

// named is the name of something without a namespace.
func (s *scene) named(name string) string { return name + "-" + s.namespace() }

func (s *scene) cluster() string { return s.namespace() }

func (s *scene) queueName(kind string) string {
	if kind == "ClusterQueue" {
		return s.cluster()
	}
	return "queue"
}

// make creates what cannot be refused.
func (s *scene) make(body object) {
	s.Helper()
	s.must(s.create(body))
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// admit creates a Workload, younger than the one before, that asks for pods of one GPU
// each, and waits for what becomes of it.
func (s *scene) admit(name string, pods, priority int64, more ...func(o object)) {
	s.Helper()
	s.second()
	o := object{"kind": "Workload", "metadata": object{"namespace": s.namespace(), "name": name}, "spec": object{
		"queueName": "queue", "priority": priority, "active": true, "podSets": []any{podSet("workers", pods)},
	}}
	for _, change := range more {
		change(o)
	}
	s.make(o)
	s.rest()
}

func podSet(name string, pods int64) object {
	return object{"name": name, "count": pods, "template": object{"metadata": object{}, "spec": object{
		"restartPolicy": "Never",
		"containers": []any{object{
			"name": "train", "image": "x", "resources": object{"requests": object{gpu: "1"}, "limits": object{gpu: "1"}},
		}},
	}}}
}

// conditions changes a Workload's status as the job side does: conditions as they are
// with some changed, guarded by the version.
func (s *scene) conditions(name string, more object, set ...[3]string) error {
	s.Helper()
	return s.update("Workload", name, "status", func(o object, now time.Time) object {
		list, _ := at(o, "status", "conditions").([]any)
		body := object{"status": object{"conditions": slices.Clone(list)}}
		for _, c := range set {
			apiserver.SetCondition(body, now, c[0], c[1], c[2], "")
		}
		status := object{"conditions": at(body, "status", "conditions")}
		maps.Copy(status, more)
		return object{"status": status}
	})
}

func (s *scene) write(name string, more object, set ...[3]string) {
	s.Helper()
	s.must(s.conditions(name, more, set...))
	s.rest()
}

// release gives quota back for a reason, with Requeued of a status and reason if given.
func (s *scene) release(name, reason string, isRequeued ...string) {
	s.Helper()
	set := [][3]string{{"QuotaReserved", "False", reason}, {"Admitted", "False", "NoReservation"}}
	if len(isRequeued) == 2 {
		set = append(set, [3]string{"Requeued", isRequeued[0], isRequeued[1]})
	}
	s.write(name, object{"admission": nil}, set...)
}

func (s *scene) condition(name, kind, status, reason string) {
	s.Helper()
	s.write(name, nil, [3]string{kind, status, reason})
}

func (s *scene) spec(name string, spec object) {
	s.Helper()
	s.must(s.patch("Workload", name, object{"spec": spec}, ""))
	s.rest()
}

// stop sets the stop policy of a queue: kind is ClusterQueue or LocalQueue.
func (s *scene) stop(kind, policy string) {
	s.Helper()
	s.must(s.patch(kind, s.queueName(kind), object{"spec": object{"stopPolicy": policy}}, ""))
	s.rest()
}

func (s *scene) remove(kind, name string) {
	s.Helper()
	s.must(s.delete(kind, name))
	s.rest()
}

// check makes an AdmissionCheck that the ClusterQueue asks for.
func (s *scene) check(name string) {
	s.Helper()
	s.make(object{"kind": "AdmissionCheck", "metadata": object{"name": s.named(name)}, "spec": object{"controllerName": "example.com/script"}})
	s.must(s.patch("AdmissionCheck", s.named(name), object{"status": object{"conditions": []any{object{
		"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": "2026-11-29T12:00:00Z",
	}}}}, "status"))
	s.must(s.patch("ClusterQueue", s.cluster(), object{"spec": object{
		"admissionChecksStrategy": object{"admissionChecks": []any{object{"name": s.named(name)}}},
	}}, ""))
	s.rest()
}

// answer is what the check's controller says for a Workload.
func (s *scene) answer(workload, check, state string, more object) {
	s.Helper()
	s.must(s.update("Workload", workload, "status", func(o object, now time.Time) object {
		var checks []any
		for _, c := range items(at(o, "status", "admissionChecks")) {
			if c["name"] == s.named(check) {
				next := object{"name": c["name"], "state": state, "message": "", "lastTransitionTime": now.UTC().Format(time.RFC3339)}
				if r := c["retryCount"]; r != nil {
					next["retryCount"] = r
				}
				maps.Copy(next, more)
				c = next
			}
			checks = append(checks, c)
		}
		return object{"status": object{"admissionChecks": checks}}
	}))
	s.rest()
}
