package arbitrary

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

func (a Source) stamp() metav1.Time { return metav1.NewTime(a.Moment()) }

func (a Source) stampOrNone() *metav1.Time {
	if a.Rarely(2) {
		return nil
	}
	t := a.stamp()
	return &t
}

// template is what the job of all observations trains.
const template = `{"spec":{"replicatedJobs":[{"name":"workers","replicas":1,"template":{"spec":{"parallelism":2,"completions":2,"template":{"spec":{"containers":[{"name":"train","image":"registry.example/llama:1"}]}}}}}]}}`

func (a Source) parent() *v1beta1.ResumableTrainingJob {
	p := &v1beta1.ResumableTrainingJob{}
	p.APIVersion, p.Kind = v1beta1.GroupVersion.String(), v1beta1.Kind
	p.Name, p.Namespace, p.UID, p.Generation = "llama", "team-a", "uid-llama", 1+a.Int64N(3)
	if !a.Rarely(4) {
		p.Annotations = map[string]string{v1beta1.AnnotationRunID: OneOf(a, "uid-llama", "uid-llama", "..", "a/b", strings.Repeat("x", 100))}
	}
	if a.Rarely(20) {
		p.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "team-a"}
	}
	spec := &p.Spec
	if err := json.Unmarshal([]byte(template), &spec.Template); err != nil {
		panic(err) // It is a constant.
	}
	spec.Suspend = a.Rarely(4)
	spec.QueueName = OneOf(a, "team-a", "team-a", "team-a", "gone")
	spec.PriorityClassName = OneOf(a, "", "", "high", "gone")
	spec.Trainer.ProcessesPerPod = OneOf[int32](a, 0, 1, 2, 2)
	spec.Trainer.ReplicatedJob = OneOf(a, "", "", "", "workers", "gone")
	spec.Checkpoint.Storage.URI = "s3://bucket/prefix"
	if a.Rarely(2) {
		spec.Checkpoint.Storage.Credentials = &v1beta1.StorageCredentials{SecretName: "store"}
	}
	if a.Rarely(4) {
		spec.Resume.From = a.checkpointID()
	}
	spec.Resume.OnNone = OneOf(a, "", v1beta1.OnNoneWait, v1beta1.OnNoneStartFresh)
	spec.Resume.Compatibility.WorldSize = OneOf(a, "", v1beta1.WorldSizeExact)
	if a.Rarely(2) {
		n := a.Int32N(4)
		spec.FailurePolicy.MaxFailures = &n
	}
	spec.Yield.GracePeriod.Duration = OneOf(a, 0, time.Second, 5*time.Minute)
	spec.Startup.Deadline.Duration = OneOf(a, 0, time.Minute)
	p.Status = a.status()
	return p
}

func (a Source) status() v1beta1.ResumableTrainingJobStatus {
	if a.Rarely(8) {
		return v1beta1.ResumableTrainingJobStatus{}
	}
	st := v1beta1.ResumableTrainingJobStatus{
		ObservedGeneration: 1 + a.Int64N(3), Phase: OneOf(a, phases...), RunID: OneOf(a, "", "uid-llama"),
		Attempt: a.Int32N(4), WorkloadNumber: a.Int32N(3), Preemptions: a.Int32N(3),
		Failures: v1beta1.FailureStatus{WithoutProgress: a.Int32N(5), Disruptions: a.Int32N(40), BestStep: a.Int64N(400)},
	}
	if st.Phase.Terminal() && a.Rarely(2) {
		st.Phase = v1beta1.PhaseRunning
	}
	if a.Rarely(2) {
		st.LastEnd = &v1beta1.AttemptEnd{Attempt: a.Int32N(4), At: a.stamp(), ObservedBy: OneOf(a, "rtj", "other"), Outcome: OneOf(a, outcome...)}
	}
	if a.Rarely(3) {
		st.Hold = &v1beta1.HoldStatus{Reason: OneOf(a, holds...), Since: a.stamp(), Until: a.stampOrNone(), Count: a.Int32N(40)}
	}
	if a.Rarely(3) {
		st.Yield = &v1beta1.YieldStatus{Attempt: a.Int32N(4), Cause: v1beta1.CausePreempted, IssuedAt: a.stamp(), Deadline: a.stamp(), SuspendedAt: a.stampOrNone()}
	}
	if a.Rarely(6) {
		st.PodsEnding = &v1beta1.PodsEnding{Attempt: a.Int32N(4), Since: a.stamp()}
	}
	for range OneOf(a, 0, 0, 0, 1, v1beta1.MaxForced) {
		st.Forced = append(st.Forced, v1beta1.ForcedAttempt{Attempt: a.Int32N(4), At: a.stamp()})
	}
	for i := range OneOf(a, 0, 0, 1, v1beta1.MaxRestoreFailures) {
		st.RestoreFailures = append(st.RestoreFailures, v1beta1.RestoreFailure{Checkpoint: fmt.Sprint(a.checkpointID(), i), Count: a.Int32N(4), LastAttempt: a.Int32N(4)})
	}
	for n := range OneOf(a, 0, 1, 2, 3, v1beta1.MaxLedgerEntries) {
		e := v1beta1.LedgerEntry{Attempt: int32(n), RestoredStep: a.Int64N(300), AdmittedAt: a.stampOrNone(), StartedAt: a.stampOrNone(), ReadyAt: a.stampOrNone(), FirstStepAt: a.stampOrNone(), StoppedAt: a.stampOrNone(), Outcome: OneOf(a, outcome...)}
		if a.Rarely(2) {
			e.RestoredFrom = a.checkpointID()
		}
		st.Ledger = append(st.Ledger, e)
	}
	return st
}

// Observation is of a job in any state.
func (a Source) Observation() *compose.Observation {
	o := &compose.Observation{
		Now: Noon.Add(time.Duration(a.Int64N(int64(time.Second)))), PodIntegration: a.Rarely(2),
		Observer: OneOf(a, "rtj", "other", strings.Repeat("host", 50)), Parent: a.parent(), Catalog: a.Catalog(),
	}
	for k := range int32(4) {
		if a.Rarely(3) || k == 1 && !a.Rarely(4) {
			o.Workloads = append(o.Workloads, a.workload(k))
		}
	}
	for n := range int32(5) {
		if n == 0 && !a.Rarely(20) {
			continue
		}
		if a.Rarely(2) {
			o.JobSets = append(o.JobSets, a.jobSet(n, reservedAt...))
		}
		for i := range a.IntN(3) {
			o.Jobs = append(o.Jobs, a.job(n, i))
		}
		if a.Rarely(2) {
			o.LeaderPods = append(o.LeaderPods, a.leader(n))
		}
	}
	if a.Rarely(30) {
		o.JobSets = append(o.JobSets, a.jobSet(OneOf[int32](a, 99999, 2147483647), reservedAt...))
	}
	if !a.Rarely(3) {
		o.Control = a.control()
	}
	a.queues(o)
	if a.Rarely(5) {
		o.Launch = &compose.LaunchProbe{JobSet: fmt.Sprintf("llama-%d", a.attempt()), Refused: OneOf(a, "", "exceeded quota"), Foreign: a.Rarely(2)}
	}
	return o
}

func (a Source) queues(o *compose.Observation) {
	local := func(name string) {
		o.LocalQueues = append(o.LocalQueues, decoded(object{"metadata": object{"name": name}, "spec": object{"clusterQueue": OneOf(a, "cluster", "cluster", "gone"), "stopPolicy": OneOf(a, "", "None", "Hold")}},
			func(q *compose.LocalQueue) *compose.Object { return &q.Object }))
	}
	if !a.Rarely(6) {
		local("team-a")
	}
	if a.Rarely(8) {
		local("default")
	}
	o.ClusterQueues = append(o.ClusterQueues, decoded(object{"metadata": object{"name": "cluster"}, "status": object{"conditions": []any{a.condition("Active", either, "Ready")}}},
		func(q *compose.ClusterQueue) *compose.Object { return &q.Object }))
	if !a.Rarely(6) {
		o.Flavors = append(o.Flavors, decoded(object{"metadata": object{"name": "gpu"}, "spec": object{"nodeLabels": object{"pool": "gpu"}}},
			func(f *compose.ResourceFlavor) *compose.Object { return &f.Object }))
	}
	if a.Rarely(2) {
		o.PriorityClasses = append(o.PriorityClasses, decoded(object{"metadata": object{"name": "high"}, "value": 100},
			func(c *compose.PriorityClass) *compose.Object { return &c.Object }))
	}
}

// Likely is an observation of a job that runs, with some of it changed, so that
// deep rules are reached more often than by chance alone.
func (a Source) Likely() *compose.Observation {
	o := a.Observation()
	p := o.Parent
	p.Spec.QueueName, p.Spec.PriorityClassName, p.Spec.Trainer.ReplicatedJob = "team-a", "", ""
	p.Status.Phase = OneOf(a, v1beta1.PhaseStarting, v1beta1.PhaseRunning, v1beta1.PhaseDraining)
	p.Status.WorkloadNumber, p.Status.Attempt = 1, OneOf[int32](a, 0, 1, 1, 2)
	o.JobSets = []compose.JobSet{a.jobSet(1, reservedAt[0])}
	o.Workloads = []compose.Workload{a.admitted(OneOf[int32](a, 0, 1, 1, 1, 2))}
	return o
}

func (a Source) admitted(claimed int32) compose.Workload {
	annotations := object{}
	if claimed > 0 {
		annotations["training.rtj.dev/claim"] = fmt.Sprintf(`{"workloadUID":"uid-w","reservedAt":%q,"attempt":%d,"jobSetUID":"uid-%[2]d","at":%q}`, reservedAt[0], claimed, a.text(a.Moment()))
	}
	conditions := []any{
		object{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": reservedAt[0]},
		object{"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": reservedAt[0]},
	}
	if a.Rarely(3) {
		conditions = append(conditions, a.condition("Evicted", yes, evicted...))
	}
	if a.Rarely(3) {
		conditions = append(conditions, a.condition("PodsReady", either, "Started", "WaitForRecovery"))
	}
	return decoded(object{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": object{"name": "llama-w1", "namespace": "team-a", "uid": "uid-w", "resourceVersion": "7", "annotations": annotations},
		"spec": object{"queueName": "team-a", "podSets": []any{object{"name": "workers", "count": 2}}},
		"status": object{"conditions": conditions, "admission": object{"clusterQueue": "cluster",
			"podSetAssignments": []any{object{"name": "workers", "count": 2, "flavors": object{"cpu": "gpu"}}}}}},
		func(w *compose.Workload) *compose.Object { return &w.Object })
}

// Shuffled is the same observation, with every list in another order.
func (a Source) Shuffled(o *compose.Observation) *compose.Observation {
	n := *o
	n.Workloads, n.JobSets, n.Jobs, n.LeaderPods = shuffle(a, o.Workloads), shuffle(a, o.JobSets), shuffle(a, o.Jobs), shuffle(a, o.LeaderPods)
	n.LocalQueues, n.ClusterQueues, n.Flavors, n.PriorityClasses = shuffle(a, o.LocalQueues), shuffle(a, o.ClusterQueues), shuffle(a, o.Flavors), shuffle(a, o.PriorityClasses)
	if o.Catalog != nil {
		c := *o.Catalog
		c.Manifests = shuffle(a, c.Manifests)
		n.Catalog = &c
	}
	return &n
}

func shuffle[T any](a Source, list []T) []T {
	n := append([]T(nil), list...)
	a.Shuffle(len(n), func(i, j int) { n[i], n[j] = n[j], n[i] })
	return n
}
