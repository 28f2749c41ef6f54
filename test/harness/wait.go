package harness

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/api/v1beta1"
)

// pollEvery is how often a wait looks.
const pollEvery = 100 * time.Millisecond

// Until looks until it is done, and says what was seen last when the time is over.
func Until(ctx context.Context, limit time.Duration, what string, look func(context.Context) (done bool, seen string, err error)) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := "nothing was seen"
	for {
		done, seen, err := look(ctx)
		switch {
		case err == nil && done:
			return nil
		case err != nil && ctx.Err() == nil && !apierrors.IsServerTimeout(err):
			last = err.Error()
		case err == nil:
			last = seen
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %.0f s in vain for: %s; last seen: %s", time.Since(begun).Seconds(), what, last)
		case <-time.After(pollEvery):
		}
	}
}

// UntilJob waits for something to be so of a job.
func (n *Namespace) UntilJob(ctx context.Context, name string, limit time.Duration, what string, so func(*v1beta1.ResumableTrainingJob) bool) (*v1beta1.ResumableTrainingJob, error) {
	var last *v1beta1.ResumableTrainingJob
	err := Until(ctx, limit, name+": "+what, func(ctx context.Context) (bool, string, error) {
		job, err := n.Job(ctx, name)
		if err != nil {
			return false, "", err
		}
		last = job
		return so(job), Standing(job), nil
	})
	return last, err
}

// Standing is a job's state in one line.
func Standing(job *v1beta1.ResumableTrainingJob) string {
	ready := Condition(job.Status.Conditions, v1beta1.ConditionReady)
	line := fmt.Sprintf("%s/%s, attempt %d", job.Status.Phase, ready.Reason, job.Status.Attempt)
	if p := job.Status.Progress; p != nil {
		line += fmt.Sprintf(", step %d", p.Step)
	}
	return line + ": " + ready.Message
}

// InPhase is a predicate for [Namespace.UntilJob].
func InPhase(phases ...v1beta1.Phase) func(*v1beta1.ResumableTrainingJob) bool {
	return func(job *v1beta1.ResumableTrainingJob) bool {
		for _, p := range phases {
			if job.Status.Phase == p {
				return true
			}
		}
		return false
	}
}
