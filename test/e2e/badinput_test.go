//go:build e2e

package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minio/minio-go/v7"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// What is missing is a condition with a reason and the fix, not a loop; and the
// job goes on by itself once it is there.
func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, value, path...) }
	}
	for _, c := range []struct {
		name   string
		reason string
		// edit makes the job name what is missing; before makes the namespace so.
		edit   func(*unstructured.Unstructured)
		before func(*scene)
		// fix is what the message tells a person to do.
		fix func(*scene)
	}{
		{
			name: "Queue", reason: v1beta1.ReasonQueueNotFound, edit: set("absent", "spec", "queueName"),
			fix: func(s *scene) { s.must(s.CreateLocalQueue(t.Context(), "absent")) },
		},
		{
			name: "Bucket", reason: v1beta1.ReasonBucketNotFound, edit: set("s3://absent-"+run+"/runs", "spec", "checkpoint", "storage", "uri"),
			fix: func(s *scene) {
				s.must(s.Store.MakeBucket(t.Context(), "absent-"+run, minio.MakeBucketOptions{Region: s.S3.Region}))
			},
		},
		{
			name: "Secret", reason: v1beta1.ReasonSecretNotFound,
			before: func(s *scene) {
				s.must(s.Kube.CoreV1().Secrets(s.Name).Delete(t.Context(), harness.SecretName, metav1.DeleteOptions{}))
			},
			fix: func(s *scene) { s.must(s.CreateSecret(t.Context())) },
		},
		{
			name: "PriorityClass", reason: v1beta1.ReasonPriorityClassNotFound, edit: set("absent-"+run, "spec", "priorityClassName"),
			fix: func(s *scene) { s.must(s.CreatePriorityClass(t.Context(), "absent-"+run, 5)) },
		},
		{
			name: "DefaultLocalQueue", reason: v1beta1.ReasonDefaultLocalQueueCapturesPods,
			before: func(s *scene) { s.must(s.CreateLocalQueue(t.Context(), "default")) },
			fix:    func(s *scene) { s.must(s.DeleteLocalQueue(t.Context(), "default")) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 2)
			if c.before != nil {
				c.before(s)
				// The operator's watches show it a little later.
				time.Sleep(3 * time.Second)
			}
			s.create(harness.Job{Name: "job", Steps: 10, Edit: c.edit})
			job := s.until("job", "it says what is missing", func(j *v1beta1.ResumableTrainingJob) bool {
				return harness.Condition(j.Status.Conditions, v1beta1.ConditionReady).Reason == c.reason
			})
			ready := harness.Condition(job.Status.Conditions, v1beta1.ConditionReady)
			if job.Status.Phase != v1beta1.PhasePending || ready.Message == "" {
				t.Errorf("want Pending with a message, is %s", harness.Standing(job))
			}
			if stalled := harness.Condition(job.Status.Conditions, v1beta1.ConditionStalled); stalled.Status != metav1.ConditionTrue {
				t.Error("a person has to act, but Stalled is not True")
			}
			t.Logf("%s: %s", ready.Reason, ready.Message)
			s.quiet("job")
			c.fix(s)
			s.untilAdmitted("job")
		})
	}
}

// quiet checks that nothing is written about a job for some seconds.
func (s *scene) quiet(job string) {
	s.t.Helper()
	s.settle(job)
	const span = 8 * time.Second
	from := time.Now()
	time.Sleep(span)
	writes, err := s.AllWrites(from, time.Now())
	s.must(err)
	for _, w := range writes {
		if w.Of(job) {
			s.t.Errorf("a write while nothing changes: %s", w)
		}
	}
}
