package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// moments are when things happened to the preempted job, by this machine's
// clock: conditions in the API have whole seconds only.
type moments struct {
	mu                              sync.Mutex
	evicted, released, readmitted   time.Time
	acknowledged, firstStepOfSecond time.Time
}

// seen takes note of a state of the job's Workload, as a watch shows it.
func (m *moments) seen(w *kueue.Workload, say func(what string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	evicted := harness.Condition(w.Status.Conditions, kueue.WorkloadEvicted)
	reserved := harness.Reserved(w)
	now := time.Now()
	switch {
	case m.evicted.IsZero() && evicted.Status == "True":
		m.evicted = now
		say("evicted by Kueue: " + evicted.Reason)
	case !m.evicted.IsZero() && m.released.IsZero() && !reserved:
		m.released = now
		say("no pod is left; its quota is given back")
	case !m.released.IsZero() && m.readmitted.IsZero() && reserved:
		m.readmitted = now
		say("admitted again by Kueue")
	}
}

// figures are what the demo claims.
type figures struct {
	attempts                        int32
	lostSteps                       int64
	knowing, released, firstNewStep time.Duration
}

// account draws the figures from the job's own ledger and what was seen.
func (m *moments) account(ctx context.Context, n *harness.Namespace, job *v1beta1.ResumableTrainingJob) (figures, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	first, err := n.Progress(ctx, job, 1)
	if err != nil {
		return f, err
	}
	second, err := n.Progress(ctx, job, 2)
	if err != nil {
		return f, err
	}
	switch {
	case first == nil || first.Yield == nil || first.Yield.AcknowledgedAt == nil:
		return f, errors.New("the workers of attempt 1 never said that they knew")
	case second == nil || second.FirstStepAt == nil:
		return f, errors.New("the workers of attempt 2 never said that they made a step")
	case m.evicted.IsZero() || m.released.IsZero() || m.readmitted.IsZero():
		return f, errors.New("eviction, release and readmission were not all seen")
	}
	m.acknowledged, m.firstStepOfSecond = *first.Yield.AcknowledgedAt, *second.FirstStepAt
	f.knowing = m.acknowledged.Sub(m.evicted)
	f.released = m.released.Sub(m.evicted)
	f.firstNewStep = m.firstStepOfSecond.Sub(m.readmitted)
	return f, nil
}

func (f figures) String() string {
	return fmt.Sprintf("%d attempts, %d lost steps, eviction to workers knowing %.2f s, eviction to quota released %.2f s, readmission to first new step %.2f s",
		f.attempts, f.lostSteps, f.knowing.Seconds(), f.released.Seconds(), f.firstNewStep.Seconds())
}
