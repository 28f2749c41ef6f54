package compose

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

const (
	jobSetAPI  = "jobset.x-k8s.io/v1alpha2"
	jobSetKind = "JobSet"

	controlVolume    = "rtj-control"
	controlDirectory = "/var/run/rtj"
	noticeFile       = "notice.json"
)

// buildJobSet builds attempt n, suspended, from the template and the admission.
func (s *situation) buildJobSet(n int32, sets map[string]podSetLaunch, restore *checkpoint.Manifest) (*jobset.JobSet, error) {
	spec := s.spec.Template.Spec.DeepCopy()
	suspend, none := true, int32(0)
	spec.Suspend = &suspend
	spec.FailurePolicy = &jobset.FailurePolicy{MaxRestarts: 0}
	spec.TTLSecondsAfterFinished = nil
	if spec.Network != nil {
		// Attempts that shared a subdomain would share its Service, which selects the
		// first one's pods.
		spec.Network.Subdomain = ""
	}
	labels := map[string]string{v1beta1.LabelUID: string(s.Parent.UID), v1beta1.LabelAttempt: fmt.Sprint(n)}
	for i := range spec.ReplicatedJobs {
		job := &spec.ReplicatedJobs[i]
		set := sets[job.Name]
		if err := resize(job, set.count); err != nil {
			return nil, err
		}
		template := &job.Template
		template.Labels = with(template.Labels, labels)
		template.Spec.BackoffLimit = &none
		template.Spec.TTLSecondsAfterFinished = nil
		template.Spec.PodFailurePolicy = failurePolicy(template.Spec.PodFailurePolicy)
		if err := s.preparePod(&template.Spec.Template, set, labels); err != nil {
			return nil, fmt.Errorf("replicatedJob %q: %w", job.Name, err)
		}
	}
	name := attemptName(s.Parent.Name, n)
	if err := s.equipTrainer(name, n, spec, restore); err != nil {
		return nil, err
	}
	annotations := with(s.spec.Template.Metadata.Annotations, map[string]string{
		v1beta1.AnnotationReservation: encode(s.reservation),
		v1beta1.AnnotationTemplate:    s.templateMark(),
	})
	if restore != nil {
		annotations[v1beta1.AnnotationRestore] = restore.ID
	}
	return &jobset.JobSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Parent.Namespace, Labels: with(s.spec.Template.Metadata.Labels, labels), Annotations: annotations},
		Spec:       *spec,
	}, nil
}

// resize gives a replicatedJob the number of pods that was admitted.
func resize(job *jobset.ReplicatedJob, count int32) error {
	if count == replicas(job)*parallelism(job) {
		if job.Template.Spec.Completions == nil {
			job.Template.Spec.Completions = job.Template.Spec.Parallelism
		}
		return nil
	}
	if count%replicas(job) != 0 {
		return fmt.Errorf("replicatedJob %q: %d pods cannot be spread over %d Jobs", job.Name, count, replicas(job))
	}
	each := count / replicas(job)
	job.Template.Spec.Parallelism, job.Template.Spec.Completions = &each, &each
	return nil
}

// failurePolicy puts our rules in front of the user's, so that the message of a
// failed Job names the cause without reading its pods.
func failurePolicy(user *batchv1.PodFailurePolicy) *batchv1.PodFailurePolicy {
	policy := &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionFailJob,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}}}
	for _, code := range []int32{exitYielded, exitNotServiced, exitRestoreFailed} {
		policy.Rules = append(policy.Rules, batchv1.PodFailurePolicyRule{
			Action:      batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{code}},
		})
	}
	if user != nil {
		policy.Rules = append(policy.Rules, user.Rules...)
	}
	if len(policy.Rules) < maxFailureRules {
		// Any other failure fails the Job as well; by a rule it does so with a message
		// that names the pod and the exit code.
		policy.Rules = append(policy.Rules, batchv1.PodFailurePolicyRule{
			Action:      batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{exitYielded, exitNotServiced, exitRestoreFailed}},
		})
	}
	return policy
}

// maxFailureRules is the API's bound on the rules of a pod failure policy.
const maxFailureRules = 20

// preparePod gives a pod template what the admission adds and what RTJ owns.
func (s *situation) preparePod(pod *corev1.PodTemplateSpec, set podSetLaunch, labels map[string]string) error {
	pod.Labels = with(pod.Labels, labels)
	pod.Annotations = with(pod.Annotations, nil)
	pod.Spec.NodeSelector = with(pod.Spec.NodeSelector, nil)
	if err := merge(pod.Labels, set.labels, "label"); err != nil {
		return err
	}
	if err := merge(pod.Annotations, set.annotations, "annotation"); err != nil {
		return err
	}
	if err := merge(pod.Spec.NodeSelector, set.nodeSelector, "node label"); err != nil {
		return err
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, set.tolerations...)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		seconds := int64(math.Ceil(max(podGracePeriod, s.gracePeriod()).Seconds()))
		pod.Spec.TerminationGracePeriodSeconds = &seconds
	}
	return nil
}

// with returns a copy of a map with more entries.
func with(m, more map[string]string) map[string]string {
	out := make(map[string]string, len(m)+len(more))
	maps.Copy(out, m)
	maps.Copy(out, more)
	return out
}

// equipTrainer gives the trainer's container its environment and the control
// directory.
func (s *situation) equipTrainer(name string, n int32, spec *jobset.JobSetSpec, restore *checkpoint.Manifest) error {
	i := trainer(s.spec)
	if i < 0 {
		return fmt.Errorf("spec.trainer.replicatedJob %q is not in the template", s.spec.Trainer.ReplicatedJob)
	}
	job := &spec.ReplicatedJobs[i]
	pod := &job.Template.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		return fmt.Errorf("replicatedJob %q has no container", job.Name)
	}
	c := 0
	if want := s.spec.Trainer.Container; want != "" {
		if c = slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == want }); c < 0 {
			return fmt.Errorf("spec.trainer.container %q is not in replicatedJob %q", want, job.Name)
		}
	}
	container := &pod.Containers[c]
	container.Env = append(s.environment(name, n, job, pod, restore), container.Env...)
	container.Env = s.credentials(container.Env)
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: controlVolume, MountPath: controlDirectory, ReadOnly: true})
	pod.Volumes = append(pod.Volumes, s.controlVolume())
	return nil
}

// controlVolume projects the control document, which need not exist, and the
// notice on the pod into one directory.
func (s *situation) controlVolume() corev1.Volume {
	optional := true
	return corev1.Volume{Name: controlVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: controlName(s.Parent.Name)}, Optional: &optional,
			Items: []corev1.KeyToPath{{Key: controlKey, Path: controlKey}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
			Path: noticeFile, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + v1beta1.AnnotationYield + "']"},
		}}}},
	}}}}
}

// leaderAddress is the host name of index 0 of job 0 of the trainer.
func leaderAddress(attempt, replicatedJob string) string {
	return fmt.Sprintf("%s-%s-0-0.%s", attempt, replicatedJob, attempt)
}

// identityJSON is spec.identity for the workers.
func (s *situation) identityJSON() string {
	declared := declaredIdentity(s.spec.Identity)
	if declared == nil {
		return "{}"
	}
	text, err := json.Marshal(declared)
	if err != nil {
		return "{}"
	}
	return string(text)
}
