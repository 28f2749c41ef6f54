package main

import (
	"context"
	"fmt"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// figures are what the demo claims.
type figures struct {
	attempts                        int32
	lostSteps                       int64
	knowing, released, firstNewStep time.Duration
}

// account draws the figures from the job's own ledger and what was seen.
func account(ctx context.Context, n *harness.Namespace, job *v1beta1.ResumableTrainingJob, cycle *harness.Cycle) (figures, error) {
	f := figures{attempts: job.Status.Attempt, lostSteps: job.Status.Totals.LostSteps}
	for _, entry := range job.Status.Ledger {
		if entry.LostSteps == nil {
			return f, fmt.Errorf("the ledger does not say how many steps attempt %d lost", entry.Attempt)
		}
		f.lostSteps += *entry.LostSteps
	}
	if f.attempts != 2 {
		return f, fmt.Errorf("there were %d attempts, one preemption makes 2", f.attempts)
	}
	if f.lostSteps != 0 {
		return f, fmt.Errorf("%d steps were lost", f.lostSteps)
	}
	m, err := cycle.Moments(ctx, n, job)
	if err != nil {
		return f, err
	}
	f.knowing = m.Knew.Sub(m.Evicted)
	f.released = m.Released.Sub(m.Evicted)
	f.firstNewStep = m.FirstStep.Sub(m.Readmitted)
	return f, nil
}

func (f figures) String() string {
	return fmt.Sprintf("%d attempts, %d lost steps, eviction to workers knowing %.2f s, eviction to quota released %.2f s, readmission to first new step %.2f s",
		f.attempts, f.lostSteps, f.knowing.Seconds(), f.released.Seconds(), f.firstNewStep.Seconds())
}
