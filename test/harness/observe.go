package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

var jobSets = jobset.SchemeGroupVersion.WithResource("jobsets")

func conflict(err error) bool { return apierrors.IsConflict(err) }

// list reads all objects of a kind that belong to a job.
func list[T any](ctx context.Context, n *Namespace, resource schema.GroupVersionResource, job *v1beta1.ResumableTrainingJob) ([]T, error) {
	found, err := n.Dynamic.Resource(resource).Namespace(n.Name).List(ctx, metav1.ListOptions{LabelSelector: v1beta1.LabelUID + "=" + string(job.UID)})
	if err != nil {
		return nil, err
	}
	objects := make([]T, len(found.Items))
	for i := range found.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, &objects[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// Workloads of a job, by name.
func (n *Namespace) Workloads(ctx context.Context, job *v1beta1.ResumableTrainingJob) ([]kueue.Workload, error) {
	return list[kueue.Workload](ctx, n, workloads, job)
}

// Workload is a job's only Workload; nil if there is none.
func (n *Namespace) Workload(ctx context.Context, job *v1beta1.ResumableTrainingJob) (*kueue.Workload, error) {
	all, err := n.Workloads(ctx, job)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if len(all) > 1 {
		return nil, fmt.Errorf("%d Workloads of %s", len(all), job.Name)
	}
	return &all[0], nil
}

// PatchWorkload changes a Workload by a merge patch.
func (n *Namespace) PatchWorkload(ctx context.Context, name, patch string) error {
	_, err := n.Dynamic.Resource(workloads).Namespace(n.Name).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// DeleteWorkload deletes a Workload by hand.
func (n *Namespace) DeleteWorkload(ctx context.Context, name string) error {
	return n.Dynamic.Resource(workloads).Namespace(n.Name).Delete(ctx, name, metav1.DeleteOptions{})
}

// JobSets of a job.
func (n *Namespace) JobSets(ctx context.Context, job *v1beta1.ResumableTrainingJob) ([]jobset.JobSet, error) {
	return list[jobset.JobSet](ctx, n, jobSets, job)
}

// DeleteJobSet deletes a JobSet by hand, as kubectl does.
func (n *Namespace) DeleteJobSet(ctx context.Context, name string) error {
	background := metav1.DeletePropagationBackground
	return n.Dynamic.Resource(jobSets).Namespace(n.Name).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

// Jobs of a job's attempts.
func (n *Namespace) Jobs(ctx context.Context, job *v1beta1.ResumableTrainingJob) ([]batchv1.Job, error) {
	found, err := n.Kube.BatchV1().Jobs(n.Name).List(ctx, metav1.ListOptions{LabelSelector: v1beta1.LabelUID + "=" + string(job.UID)})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}

// Pods of a job, by attempt and index. An attempt of 0 means all.
func (n *Namespace) Pods(ctx context.Context, job *v1beta1.ResumableTrainingJob, attempt int32) ([]corev1.Pod, error) {
	selector := v1beta1.LabelUID + "=" + string(job.UID)
	if attempt > 0 {
		selector += fmt.Sprintf(",%s=%d", v1beta1.LabelAttempt, attempt)
	}
	found, err := n.Kube.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found.Items, nil
}

// LivePods are those that may still run.
func (n *Namespace) LivePods(ctx context.Context, job *v1beta1.ResumableTrainingJob) ([]corev1.Pod, error) {
	all, err := n.Pods(ctx, job, 0)
	return slices.DeleteFunc(all, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}), err
}

// Condition of an object by type; the zero value if it is not there.
func Condition(conditions []metav1.Condition, kind string) metav1.Condition {
	for _, c := range conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// Reserved reports whether a Workload holds quota.
func Reserved(w *kueue.Workload) bool {
	return w != nil && w.Status.Admission != nil && Condition(w.Status.Conditions, kueue.WorkloadQuotaReserved).Status == metav1.ConditionTrue
}

// Ledger entry of an attempt; nil if there is none.
func Ledger(job *v1beta1.ResumableTrainingJob, attempt int32) *v1beta1.LedgerEntry {
	for i := range job.Status.Ledger {
		if job.Status.Ledger[i].Attempt == attempt {
			return &job.Status.Ledger[i]
		}
	}
	return nil
}

// text is an object in one line.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
