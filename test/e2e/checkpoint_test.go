//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// A checkpoint with a missing object is passed over for the one before, and
// status says so.
func TestTornCheckpointPassedOver(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	j := harness.Job{Name: "torn", Steps: 200, Interval: time.Second}
	s.create(j)
	s.untilAttempt("torn", 1)
	s.untilManifests("torn", 3)
	s.patch("torn", suspend)
	job := s.untilPhase("torn", v1beta1.PhasePaused)
	all := s.untilManifests("torn", 3)
	newest, before := all[len(all)-1], all[len(all)-2]

	// The checkpoint's folder is checkpoints/<attempt>/<step>-<nonce>/.
	nonce := strings.Split(newest.ID, "-")[2]
	keys, err := s.List(t.Context(), s.RunPrefix(job)+"checkpoints/1/")
	s.must(err)
	torn := ""
	for _, key := range keys {
		if strings.Contains(key, "-"+nonce+"/") && !strings.HasSuffix(key, "-index.json") {
			torn = key
		}
	}
	if torn == "" {
		t.Fatalf("no data object of %s among %v", newest.ID, keys)
	}
	s.must(s.Remove(t.Context(), torn))

	s.patch("torn", resume)
	job = s.untilAttempt("torn", 2)
	if from := job.Status.Checkpoint.RestoredFrom; from == nil || from.ID != before.ID {
		t.Errorf("want the restore point %s, it is %+v", before.ID, from)
	}
	if reason := passedOver(job, newest.ID); reason != v1beta1.ReasonIncomplete {
		t.Errorf("want %s passed over as %s, it is %q in %+v", newest.ID, v1beta1.ReasonIncomplete, reason, job.Status.Checkpoint.PassedOver)
	}
	s.succeeds(j)
}

func passedOver(job *v1beta1.ResumableTrainingJob, id string) string {
	for _, p := range job.Status.Checkpoint.PassedOver {
		if p.ID == id {
			return p.Reason
		}
	}
	return ""
}

// While the store cannot be reached nothing is launched; a running attempt is
// left alone; quota that Kueue wants is given back; and nothing that was
// committed is lost.
func TestStoreUnreachable(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	cable, err := s.CableToStore()
	s.must(err)
	t.Cleanup(cable.Close)
	cable.Cut()
	j := harness.Job{
		Name: "far", Steps: 250, Interval: time.Second, Priority: harness.Low, Grace: 4 * time.Second, TerminationGrace: 2 * time.Second,
		Edit: func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, cable.URL(), "spec", "checkpoint", "storage", "endpoint")
		},
	}
	s.create(j)
	job := s.until("far", "StoreUnreachable is said", func(j *v1beta1.ResumableTrainingJob) bool {
		return harness.Condition(j.Status.Conditions, v1beta1.ConditionStoreReachable).Status == "False"
	})
	if job.Status.Phase != v1beta1.PhasePending || harness.Condition(job.Status.Conditions, v1beta1.ConditionReady).Reason != v1beta1.ReasonStoreUnreachable {
		t.Errorf("want Pending/%s, is %s", v1beta1.ReasonStoreUnreachable, harness.Standing(job))
	}
	s.launchedNothing(job, 0)
	cable.Mend()
	s.untilAttempt("far", 1)
	s.untilManifests("far", 2)

	cable.Cut()
	s.create(harness.Job{Name: "high", Steps: 60, Priority: harness.High})
	s.untilAttempt("high", 1)
	s.until("high", "the end", func(j *v1beta1.ResumableTrainingJob) bool { return j.Status.Phase.Terminal() })
	s.until("far", "it says that the store is away", func(j *v1beta1.ResumableTrainingJob) bool {
		return harness.Condition(j.Status.Conditions, v1beta1.ConditionStoreReachable).Status == "False" && j.Status.Phase != v1beta1.PhaseRunning
	})
	s.launchedNothing(s.job("far"), 1)

	cable.Mend()
	job = s.untilAttempt("far", 2)
	e := harness.Ledger(job, 2)
	if e == nil || e.RestoredStep == 0 {
		t.Errorf("attempt 2 restored nothing: %+v", e)
	}
	s.succeeds(j)
}

// launchedNothing checks for some seconds that no JobSet above an attempt's comes.
func (s *scene) launchedNothing(job *v1beta1.ResumableTrainingJob, above int32) {
	s.t.Helper()
	const span = 4 * time.Second
	ctx, cancel := context.WithTimeout(s.t.Context(), span)
	defer cancel()
	for ctx.Err() == nil {
		sets, err := s.JobSets(s.t.Context(), job)
		s.must(err)
		for _, set := range sets {
			if set.Name > job.Name+"-"+string(rune('0'+above)) {
				s.t.Fatalf("%s: JobSet %s was made while the store could not be read", job.Name, set.Name)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}
