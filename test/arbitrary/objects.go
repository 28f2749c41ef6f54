package arbitrary

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/scenario"
)

// Source makes observations, the same ones from the same seed.
type Source struct{ *rand.Rand }

// New returns the source of a seed.
func New(seed uint64) Source { return Source{rand.New(rand.NewPCG(seed, 0))} }

var (
	// Noon of a day, around which all times are.
	Noon    = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	outcome = []v1beta1.Outcome{"", v1beta1.OutcomeFinished, v1beta1.OutcomeYielded, v1beta1.OutcomeDisrupted, v1beta1.OutcomeRestoreFailed, v1beta1.OutcomeCompletedWithoutResult, v1beta1.OutcomeFailed}
	phases  = []v1beta1.Phase{"", v1beta1.PhasePending, v1beta1.PhaseQueued, v1beta1.PhaseStarting, v1beta1.PhaseRunning, v1beta1.PhaseDraining, v1beta1.PhasePaused, v1beta1.PhaseSucceeded, v1beta1.PhaseFailed}
	holds   = []string{"StoreUnreachable", "VerdictPending", "NoCompatibleCheckpoint", "CrashBackOff", "DisruptionBackOff", "RestoreBackOff", "StartupDeadline", "AdmissionUnusable", "LaunchRefused", "SomethingNewer"}
	evicted = []string{"Preempted", "NodeFailures", "PodsReadyTimeout", "AdmissionCheck", "LocalQueueStopped", "ClusterQueueStopped", "Deactivated", "DeactivatedDueToRequeuingLimitExceeded", "FlavorMigration", "", strings.Repeat("VeryLong", 30)}
)

// OneOf returns one of the values.
func OneOf[T any](a Source, of ...T) T { return of[a.IntN(len(of))] }

// Rarely is true once in n.
func (a Source) Rarely(n int) bool { return a.IntN(n) == 0 }

// Moment is a time around Noon: within a second, a minute, or some hours.
func (a Source) Moment() time.Time {
	span := OneOf(a, 2*time.Second, time.Minute, 20*time.Minute, 3*time.Hour)
	return Noon.Add(time.Duration(a.Int64N(int64(span))) - span*3/4).Truncate(time.Second)
}

func (a Source) text(t time.Time) string { return t.Format(time.RFC3339) }

// attempt is a number of an attempt, seldom a strange one.
func (a Source) attempt() int32 {
	if a.Rarely(40) {
		return OneOf[int32](a, 99999, 99998, 100000, 2147483647)
	}
	return a.Int32N(4)
}

func (a Source) checkpointID() string {
	if a.Rarely(20) {
		return OneOf(a, "no id", strings.Repeat("x", 120))
	}
	return scenario.ManifestID(1+a.Int32N(3), 100*(1+a.Int64N(3)))
}

type object = map[string]any

func (a Source) condition(kind string, statuses []string, reasons ...string) object {
	c := object{"type": kind, "status": OneOf(a, statuses...), "reason": OneOf(a, reasons...), "message": OneOf(a, "", "because", strings.Repeat("a long story, ", 200)), "lastTransitionTime": a.text(a.Moment()), "newer": "field"}
	if a.Rarely(2) {
		c["observedGeneration"] = a.IntN(3)
	}
	return c
}

var either, yes = []string{"True", "False"}, []string{"True"}

// decoded decodes an object into the type that compose knows it by.
func decoded[T any](o object, raw func(*T) *compose.Object) T {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // Plain values always encode.
	}
	var into T
	if err := json.Unmarshal(text, &into); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	raw(&into).Raw = text
	return into
}

// reservedAt are the times of reservations; claims and JobSets name one of them.
var reservedAt = []string{"2026-11-29T11:50:00Z", "2026-11-29T11:20:00Z"}

func (a Source) workload(k int32) compose.Workload {
	uid := OneOf(a, "uid-w", "uid-w", "uid-other")
	meta := object{"name": fmt.Sprintf("llama-w%d", k), "namespace": "team-a", "uid": uid, "resourceVersion": "7", "generation": 1 + a.IntN(2)}
	annotations := object{"training.rtj.dev/shape": fmt.Sprintf("%d:%s", 1+a.IntN(3), "as-it-was"), "foreign": "kept"}
	if !a.Rarely(3) {
		annotations["training.rtj.dev/claim"] = OneOf(a, "garbage", `{}`, fmt.Sprintf(`{"workloadUID":"uid-w","reservedAt":%q,"attempt":%d,"jobSetUID":"uid-%d","at":%q}`, OneOf(a, reservedAt...), a.attempt(), a.IntN(4), a.text(a.Moment())))
	}
	meta["annotations"] = annotations
	if a.Rarely(12) {
		meta["deletionTimestamp"] = a.text(a.Moment())
	}
	spec := object{"queueName": OneOf(a, "team-a", "other"), "podSets": []any{object{"name": "workers", "count": 2, "newer": true}}}
	if a.Rarely(4) {
		spec["active"] = a.Rarely(2)
	}
	if a.Rarely(4) {
		spec["priorityClassRef"] = object{"name": OneOf(a, "high", "low")}
	}
	status := object{}
	var conditions []any
	if !a.Rarely(6) {
		c := a.condition("QuotaReserved", either, "QuotaReserved", "Pending", "OnHold", "Inadmissible")
		c["lastTransitionTime"] = OneOf(a, reservedAt...)
		conditions = append(conditions, c)
	}
	if !a.Rarely(3) {
		conditions = append(conditions, a.condition("Admitted", either, "Admitted", "NoReservation"))
	}
	if a.Rarely(3) {
		conditions = append(conditions, a.condition("Evicted", either, evicted...))
	}
	if a.Rarely(2) {
		conditions = append(conditions, a.condition("PodsReady", either, "Started", "WaitForStart", "WaitForRecovery", "Recovered"))
	}
	if a.Rarely(10) {
		conditions = append(conditions, a.condition("Finished", either, "Succeeded"))
	}
	if conditions != nil {
		status["conditions"] = conditions
	}
	if !a.Rarely(3) {
		set := object{"name": OneOf(a, "workers", "workers", "workers", "others"), "flavors": object{"cpu": OneOf(a, "gpu", "gpu", "missing")}}
		if !a.Rarely(4) {
			set["count"] = OneOf(a, 2, 2, 2, 1, 3, 0)
		}
		status["admission"] = object{"clusterQueue": "cluster", "podSetAssignments": []any{set}}
	}
	if a.Rarely(4) {
		status["accumulatedPastExecutionTimeSeconds"] = 100
	}
	return decoded(object{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": meta, "spec": spec, "status": status},
		func(w *compose.Workload) *compose.Object { return &w.Object })
}

// jobSet was built for one of the reservations, or for nobody knows what.
func (a Source) jobSet(n int32, reservedAt ...string) compose.JobSet {
	reservation := fmt.Sprintf(`{"workloadUID":"uid-w","reservedAt":%q}`, OneOf(a, reservedAt...))
	if a.Rarely(6) {
		reservation = "garbage"
	}
	annotations := object{
		"training.rtj.dev/reservation": reservation,
		"training.rtj.dev/template":    fmt.Sprintf("%d:as-it-was", 1+a.IntN(3)),
	}
	if a.Rarely(2) {
		annotations["training.rtj.dev/restore"] = OneOf(a, a.checkpointID(), a.checkpointID(), a.checkpointID(), strings.Repeat("y", 200))
	}
	if !a.Rarely(3) {
		annotations["training.rtj.dev/started"] = OneOf(a, a.text(a.Moment()), "garbage")
	}
	meta := object{"name": fmt.Sprintf("llama-%d", n), "namespace": "team-a", "uid": fmt.Sprintf("uid-%d", n), "resourceVersion": "8", "annotations": annotations}
	if a.Rarely(12) {
		meta["deletionTimestamp"] = a.text(a.Moment())
	}
	status := object{}
	if !a.Rarely(3) {
		status["replicatedJobsStatus"] = []any{object{"name": "workers", "ready": a.IntN(2), "active": a.IntN(2), "succeeded": a.IntN(2), "failed": a.IntN(2), "suspended": a.IntN(2)}}
	}
	var conditions []any
	for _, kind := range []string{"Completed", "Failed", "Suspended"} {
		if a.Rarely(4) {
			conditions = append(conditions, a.condition(kind, either, "JobSet"))
		}
	}
	if conditions != nil {
		status["conditions"] = conditions
	}
	return decoded(object{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta,
		"spec":   object{"suspend": a.Rarely(2), "replicatedJobs": []any{object{"name": "workers", "replicas": 1}}, "newer": object{"a": 1}},
		"status": status}, func(j *compose.JobSet) *compose.Object { return &j.Object })
}

func (a Source) job(n int32, i int) compose.Job {
	meta := object{"name": fmt.Sprintf("llama-%d-workers-%d", n, i), "namespace": "team-a",
		"labels": object{"jobset.sigs.k8s.io/jobset-name": fmt.Sprintf("llama-%d", n), "training.rtj.dev/attempt": fmt.Sprint(n)}}
	if a.Rarely(10) {
		meta["deletionTimestamp"] = a.text(a.Moment())
	}
	status := object{"active": a.IntN(3), "ready": a.IntN(3)}
	if !a.Rarely(3) {
		status["terminating"] = a.IntN(2)
	}
	var conditions []any
	for _, kind := range []string{"Complete", "Failed", "Suspended", "FailureTarget"} {
		if a.Rarely(4) {
			c := a.condition(kind, either, "Job")
			c["message"] = OneOf(a, "", "exit code 75", "failed with exit code 77 matching", "has condition DisruptionTarget matching", "failed with exit code 1")
			conditions = append(conditions, c)
		}
	}
	if conditions != nil {
		status["conditions"] = conditions
	}
	return decoded(object{"kind": "Job", "metadata": meta, "spec": object{"suspend": a.Rarely(2), "parallelism": 2}, "status": status},
		func(j *compose.Job) *compose.Object { return &j.Object })
}

func (a Source) control() *compose.ConfigMap {
	n := a.attempt()
	text := OneOf(a, "", "garbage", `{"schemaVersion":"1.0","kind":"Control","attempt":0,"yield":null}`,
		fmt.Sprintf(`{"schemaVersion":"1.0","kind":"Control","attempt":%d,"yield":{"id":%d,"cause":%q,"issuedAt":%q,"deadline":%q,"history":[{"cause":"Paused","at":%q}]}}`,
			n, n, OneOf(a, "Preempted", "Paused", "", "no reason", strings.Repeat("x", 100)), a.text(a.Moment()), a.text(a.Moment()), a.text(a.Moment())))
	c := decoded(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "llama-control", "namespace": "team-a", "uid": "uid-c"}, "data": object{"control.json": text, "other": "kept"}},
		func(c *compose.ConfigMap) *compose.Object { return &c.Object })
	return &c
}

func (a Source) leader(n int32) compose.Pod {
	return decoded(object{"kind": "Pod", "metadata": object{"name": fmt.Sprintf("llama-%d-workers-0-0-x%d", n, a.IntN(9)), "namespace": "team-a", "uid": "uid-p",
		"labels":      object{"training.rtj.dev/attempt": fmt.Sprint(n)},
		"annotations": object{"training.rtj.dev/yield": OneOf(a, "", "garbage", fmt.Sprintf(`{"counter":%d,"yield":{"id":%d}}`, a.IntN(6), n))}},
		"status": object{"phase": OneOf(a, "Running", "Pending", "Failed", "Succeeded")}},
		func(p *compose.Pod) *compose.Object { return &p.Object })
}

// Catalog is a reading of the store; nil: there was none.
func (a Source) Catalog() *checkpoint.Snapshot {
	if a.Rarely(6) {
		return nil
	}
	s := &checkpoint.Snapshot{}
	if !a.Rarely(8) {
		s.ListedAt = a.Moment().Add(time.Duration(a.Int64N(int64(time.Second))))
	}
	if a.Rarely(4) {
		s.Failure = &checkpoint.Failure{Kind: OneOf(a, checkpoint.Unreachable, checkpoint.AccessDenied, checkpoint.BucketNotFound), Message: "no"}
		return s
	}
	for range a.IntN(6) {
		m := checkpoint.Manifest{Attempt: 1 + a.Int32N(3), Step: 100 * (1 + a.Int64N(3)), CommittedAt: a.Moment(), RunID: OneOf(a, "uid-llama", "uid-llama", "other"), WorldSize: OneOf[int32](a, 4, 4, 8)}
		m.ID = scenario.ManifestID(m.Attempt, m.Step)
		if a.Rarely(3) {
			m.ID = strings.Replace(m.ID, "-000000000000-", "-aaaaaaaaaaaa-", 1)
		}
		if slices.ContainsFunc(s.Manifests, func(o checkpoint.Manifest) bool { return o.ID == m.ID }) {
			continue
		}
		m.Components = map[string]checkpoint.Component{"model": {Reshard: OneOf(a, "any", "none", "dp"), Complete: !a.Rarely(6)}}
		if a.Rarely(5) {
			m.Incomplete = "object is missing"
		}
		if a.Rarely(8) {
			m.Defect = &checkpoint.Defect{Reason: checkpoint.ReasonCorruptManifest, Message: strings.Repeat("corrupt ", 100)}
		}
		s.Manifests = append(s.Manifests, m)
	}
	s.Attempts = map[int32]checkpoint.Records{}
	for n := range int32(4) {
		if a.Rarely(2) {
			s.Attempts[n] = a.records(n)
		}
	}
	if a.Rarely(4) {
		s.Quarantined = map[string]checkpoint.Quarantine{a.checkpointID(): {Cause: "checksumMismatch"}}
	}
	return s
}

func (a Source) records(n int32) (r checkpoint.Records) {
	if !a.Rarely(3) {
		r.Start = &checkpoint.Start{Attempt: n, WorldSize: 4}
		if n > 1 && a.Rarely(2) {
			r.Start.Restore = &checkpoint.Restore{Checkpoint: scenario.ManifestID(n-1, 100), Attempt: n - 1, Step: 100}
		}
	}
	if !a.Rarely(3) {
		at, rate, total := a.Moment(), OneOf(a, 0, 0.5, -1, 1e-300), int64(1000)
		r.Progress = &checkpoint.Progress{Attempt: n, Activity: OneOf(a, "training", "restoring"), Step: a.Int64N(400), TotalSteps: &total, StepsPerSecond: &rate, UpdatedAt: at}
		if a.Rarely(2) {
			r.Progress.FirstStepAt = &at
		}
	}
	if a.Rarely(3) {
		r.Result = &checkpoint.Result{Attempt: n, Outcome: OneOf(a, checkpoint.ResultFinished, checkpoint.ResultYielded, checkpoint.ResultFailed, checkpoint.ResultRestoreFailed, checkpoint.ResultYieldNotServiced), Step: a.Int64N(400), Message: OneOf(a, "", strings.Repeat("é", 900))}
	}
	return r
}
