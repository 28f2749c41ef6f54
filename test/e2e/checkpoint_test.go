//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// Checkpoints with a missing or a short object, a manifest that is damaged and
// one of a later version are passed over for the one before, and status says why
// for each.
func TestTornCheckpointPassedOver(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	j := harness.Job{Name: "torn", Steps: 240, Interval: time.Second}
	s.create(j)
	s.untilAttempt("torn", 1)
	s.untilManifests("torn", 4)
	s.patch("torn", suspend)
	job := s.untilPhase("torn", v1beta1.PhasePaused)
	all := s.untilManifests("torn", 4)
	missing, short, before := all[len(all)-1], all[len(all)-2], all[len(all)-3]
	s.must(s.Remove(t.Context(), s.dataObject(job, missing)))
	s.must(s.Write(t.Context(), s.dataObject(job, short), []byte("short")))
	damaged := s.writeManifest(job, 5000, []byte("{"), "0123456789abcdef")
	later := []byte(`{"schemaVersion":"9.0","kind":"CheckpointManifest"}`)
	sum := sha256.Sum256(later)
	future := s.writeManifest(job, 6000, later, hex.EncodeToString(sum[:])[:16])

	s.patch("torn", resume)
	job = s.untilAttempt("torn", 2)
	if from := job.Status.Checkpoint.RestoredFrom; from == nil || from.ID != before.ID {
		t.Errorf("want the restore point %s, it is %+v", before.ID, from)
	}
	for id, want := range map[string]string{
		missing.ID: v1beta1.ReasonIncomplete, short.ID: v1beta1.ReasonIncomplete,
		damaged: v1beta1.ReasonCorruptManifest, future: v1beta1.ReasonUnknownVersion,
	} {
		if reason := passedOver(job, id); reason != want {
			t.Errorf("want %s passed over as %s, it is %q in %+v", id, want, reason, job.Status.Checkpoint.PassedOver)
		}
	}
	s.succeeds(j)
}

// dataObject is the key of an object with data of a checkpoint, which is below
// checkpoints/<attempt>/<step>-<nonce>/.
func (s *scene) dataObject(job *v1beta1.ResumableTrainingJob, m harness.Manifest) string {
	s.t.Helper()
	nonce := strings.Split(m.ID, "-")[2]
	keys, err := s.List(s.t.Context(), fmt.Sprintf("%scheckpoints/%d/", s.RunPrefix(job), m.Attempt))
	s.must(err)
	for _, key := range keys {
		if strings.Contains(key, "-"+nonce+"/") && !strings.HasSuffix(key, "-index.json") {
			return key
		}
	}
	s.t.Fatalf("no data object of %s among %v", m.ID, keys)
	return ""
}

// writeManifest puts bytes where a manifest of attempt 1 would be, and returns its id.
func (s *scene) writeManifest(job *v1beta1.ResumableTrainingJob, step int64, data []byte, hash string) string {
	s.t.Helper()
	id := fmt.Sprintf("%06d-%012d-%s-%s", 1, step, "0123456789ab", hash)
	s.must(s.Write(s.t.Context(), s.RunPrefix(job)+"manifests/"+id+".json", data))
	return id
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
	needsProcessNodes(t)
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
