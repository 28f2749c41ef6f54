package compose

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rtj.dev/rtj/compose/checkpoint"
)

// environment is what a worker is told, docs/formats.md. All of it is fixed for
// the attempt: nothing that ranks read at different times may change.
func (s *situation) environment(name string, n int32, job *jobset.ReplicatedJob, pod *corev1.PodSpec, restore *checkpoint.Manifest) []corev1.EnvVar {
	storage := &s.spec.Checkpoint.Storage
	restoreID := ""
	if restore != nil {
		restoreID = restore.ID
	}
	grace := podGracePeriod
	if pod.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	}
	ranks := replicas(job) * parallelism(job) * s.processesPerPod()
	return []corev1.EnvVar{
		{Name: "RTJ_NAMESPACE", Value: s.Parent.Namespace},
		{Name: "RTJ_NAME", Value: s.Parent.Name},
		{Name: "RTJ_RUN_ID", Value: s.runID()},
		{Name: "RTJ_ATTEMPT", Value: number(n)},
		{Name: "RTJ_STORAGE_URI", Value: storage.URI},
		{Name: "RTJ_STORAGE_ENDPOINT", Value: storage.Endpoint},
		{Name: "RTJ_STORAGE_REGION", Value: storage.Region},
		{Name: "RTJ_RESTORE", Value: restoreID},
		{Name: "RTJ_WORLD_SIZE", Value: number(ranks)},
		{Name: "RTJ_PROCESSES_PER_POD", Value: number(s.processesPerPod())},
		{Name: "RTJ_PODS_PER_JOB", Value: number(parallelism(job))},
		fromField("RTJ_JOB_INDEX", "metadata.labels['jobset.sigs.k8s.io/job-index']"),
		fromField("RTJ_POD_INDEX", "metadata.labels['batch.kubernetes.io/job-completion-index']"),
		{Name: "RTJ_LEADER_ADDRESS", Value: leaderAddress(name, job.Name)},
		fromField("RTJ_POD_NAME", "metadata.name"),
		fromField("RTJ_POD_IP", "status.podIP"),
		fromField("RTJ_NODE_NAME", "spec.nodeName"),
		{Name: "RTJ_CONTROL_DIR", Value: controlDirectory},
		{Name: "RTJ_YIELD_GRACE_SECONDS", Value: seconds(s.gracePeriod())},
		{Name: "RTJ_TERMINATION_GRACE_SECONDS", Value: seconds(grace)},
		{Name: "RTJ_CHECKPOINT_INTERVAL_SECONDS", Value: seconds(orDefault(s.spec.Checkpoint.Interval.Duration, defaultInterval))},
		{Name: "RTJ_IDENTITY", Value: s.identityJSON()},
	}
}

func number(n int32) string { return strconv.FormatInt(int64(n), 10) }

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

// credentials adds the store's, from the Secret that the spec names, where the
// user has not set them.
func (s *situation) credentials(env []corev1.EnvVar) []corev1.EnvVar {
	from := s.spec.Checkpoint.Storage.Credentials
	if from == nil {
		return env
	}
	optional := true
	for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		if slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == key }) {
			continue
		}
		source := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: from.SecretName}, Key: key}
		if key == "AWS_SESSION_TOKEN" {
			source.Optional = &optional
		}
		env = append(env, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: source}})
	}
	return env
}
