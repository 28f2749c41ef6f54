//go:build e2e

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// What is queued follows an edit at once, in the same Workload; what runs is not
// disturbed, and the edit applies to the next attempt.
func TestTemplateEditedWhileQueuedAndRunning(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	j := harness.Job{Name: "edited", Pods: 3, Steps: 150}
	s.create(j)
	s.untilPhase("edited", v1beta1.PhaseQueued)
	before := s.workload("edited")
	j.Pods = 2
	s.must(s.EditJob(t.Context(), "edited", func(u *unstructured.Unstructured) { harness.SetPods(u, j.Pods) }))
	s.untilAttempt("edited", 1)
	after := s.workload("edited")
	if after.UID != before.UID {
		t.Error("the Workload was made anew by an edit, and lost its place in the queue")
	}
	if got := after.Spec.PodSets[0].Count; got != 2 {
		t.Errorf("the Workload asks for %d pods", got)
	}
	s.untilStep("edited", 1, 20)

	s.must(s.EditJob(t.Context(), "edited", func(u *unstructured.Unstructured) { harness.SetEnv(u, "MARK", "edited") }))
	job := s.until("edited", "the edit is noticed", func(j *v1beta1.ResumableTrainingJob) bool {
		return harness.Condition(j.Status.Conditions, v1beta1.ConditionTemplateOutdated).Status == metav1.ConditionTrue
	})
	if job.Status.Phase != v1beta1.PhaseRunning || job.Status.Attempt != 1 {
		t.Errorf("the edit disturbed the attempt: %s", harness.Standing(job))
	}
	s.patch("edited", suspend)
	s.untilPhase("edited", v1beta1.PhasePaused)
	s.patch("edited", resume)
	job = s.untilAttempt("edited", 2)
	if harness.Condition(job.Status.Conditions, v1beta1.ConditionTemplateOutdated).Status == metav1.ConditionTrue {
		t.Error("attempt 2 runs the edited template, but TemplateOutdated is True")
	}
	pods, err := s.Pods(t.Context(), job, 2)
	s.must(err)
	for _, p := range pods {
		marked := false
		for _, e := range p.Spec.Containers[0].Env {
			marked = marked || e.Name == "MARK" && e.Value == "edited"
		}
		if !marked {
			t.Errorf("pod %s runs without the edit", p.Name)
		}
	}
	job = s.succeeds(j)
	if job.Status.Attempt != 2 {
		t.Errorf("want 2 attempts, there were %d", job.Status.Attempt)
	}
	s.resumed(job, 2)
}
