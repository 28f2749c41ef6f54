//go:build e2e

package e2e

import (
	"context"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/cluster"
	"rtj.dev/rtj/test/harness"
)

// A node is lost while its pods drain: they terminate for ever, so the drain is
// forced, and the job goes on elsewhere under a new Workload. What the zombies
// commit late is never resumed from.
func TestNodeLostDuringADrain(t *testing.T) {
	t.Parallel()
	needsProcessNodes(t)
	s := newSceneIn(t, harness.QueueOptions{GPUs: 2, Pool: lostPool})
	lost, spare := cluster.ProcessNodeName(lostNode), cluster.ProcessNodeName(spareNode)
	s.cordon(spare, true)
	t.Cleanup(func() {
		ctx := context.Background()
		_ = world.SignalComponent(lost, syscall.SIGCONT)
		_ = world.StartComponent(ctx, lost)
		s.cordonNode(ctx, spare, false)
	})
	j := harness.Job{
		Name: "job", Steps: 6000, StepTime: 100 * time.Millisecond, Interval: time.Second, Grace: 3 * time.Second, TerminationGrace: time.Second,
		Edit: func(u *unstructured.Unstructured) {
			// The shortest that is possible is the pods' grace and two minutes.
			_ = unstructured.SetNestedField(u.Object, "10s", "spec", "yield", "forceAfter")
		},
	}
	s.create(j)
	s.untilAttempt("job", 1)
	s.untilManifests("job", 2)
	// A node that is silent: it neither tells its pods nor ends them, and they train on.
	s.must(world.SignalComponent(lost, syscall.SIGSTOP))
	s.patch("job", suspend)
	s.untilPhase("job", v1beta1.PhaseDraining)
	s.patch("job", resume)
	s.cordon(spare, false)

	job := s.untilLong(4*time.Minute, "job", "the drain is forced", func(j *v1beta1.ResumableTrainingJob) bool { return len(j.Status.Forced) == 1 })
	if job.Status.Forced[0].Attempt != 1 {
		t.Errorf("attempt 1 was to be given up: %+v", job.Status.Forced)
	}
	job = s.untilAttempt("job", 2)
	if w := s.workload("job"); w.Name != "job-w2" {
		t.Errorf("want a new Workload job-w2, it is %s", w.Name)
	}
	s.untilStep("job", 2, harness.Ledger(job, 2).RestoredStep+20)
	s.zombiesCommit(job)

	// The next attempt must go on from attempt 2, whatever attempt 1 wrote since.
	s.patch("job", suspend)
	s.untilPhase("job", v1beta1.PhasePaused)
	s.patch("job", resume)
	job = s.untilAttempt("job", 3)
	if from := job.Status.Checkpoint.RestoredFrom; from == nil || from.Attempt != 2 {
		t.Errorf("attempt 3 began from %+v, not from a checkpoint of attempt 2", from)
	}
	late := false
	for _, p := range job.Status.Checkpoint.PassedOver {
		late = late || p.Reason == v1beta1.ReasonOtherBranch
	}
	if !late {
		t.Errorf("the zombies' checkpoints are not reported: %+v", job.Status.Checkpoint.PassedOver)
	}
	s.resumed(job, 3)
}

// needsProcessNodes skips a test that loses a node or cuts what only processes of
// this machine reach: there is one kubelet node, and its pods reach the S3
// server's port and no other.
func needsProcessNodes(t *testing.T) {
	t.Helper()
	if world.Options.TrainingKind() != "process" {
		t.Skip("needs process nodes")
	}
}

// zombiesCommit waits until attempt 1 has committed a step above the one that
// attempt 2 began from.
func (s *scene) zombiesCommit(job *v1beta1.ResumableTrainingJob) {
	s.t.Helper()
	began := harness.Ledger(job, 2).RestoredStep
	s.must(harness.Until(s.t.Context(), patience, "attempt 1 commits late", func(ctx context.Context) (bool, string, error) {
		all, err := s.Manifests(ctx, job)
		for _, m := range all {
			if m.Attempt == 1 && m.Step > began {
				return true, "", nil
			}
		}
		return false, "it does not", err
	}))
}

func (s *scene) cordon(node string, on bool) {
	s.t.Helper()
	s.must(s.cordonNode(s.t.Context(), node, on))
}

func (s *scene) cordonNode(ctx context.Context, node string, on bool) error {
	patch := `{"spec":{"unschedulable":false}}`
	if on {
		patch = `{"spec":{"unschedulable":true}}`
	}
	_, err := s.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
