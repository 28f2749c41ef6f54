package harness

import (
	"context"
	"errors"
	"sync"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// Cycle is when things happened in one preempt-and-resume cycle of a job, by
// this machine's clock: conditions in the API have whole seconds only.
type Cycle struct {
	mu sync.Mutex
	// evicted and so on are when a watch showed it.
	evicted, released, readmitted time.Time
}

// Moments of a cycle.
type Moments struct {
	// Evicted, Released and Readmitted are of the Workload, as a watch showed it.
	Evicted, Released, Readmitted time.Time
	// Knew is when the workers acknowledged the request to yield, FirstStep when
	// the next attempt made its first new step: by the workers' own records.
	Knew, FirstStep time.Time
}

// Seen takes note of a state of the job's Workload and says what happened, if
// something did.
func (c *Cycle) Seen(w *kueue.Workload) (what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	evicted := Condition(w.Status.Conditions, kueue.WorkloadEvicted)
	reserved := Reserved(w)
	now := time.Now()
	switch {
	case c.evicted.IsZero() && evicted.Status == "True":
		c.evicted = now
		return "evicted by Kueue: " + evicted.Reason
	case !c.evicted.IsZero() && c.released.IsZero() && !reserved:
		c.released = now
		return "no pod is left; its quota is given back"
	case !c.released.IsZero() && c.readmitted.IsZero() && reserved:
		c.readmitted = now
		return "admitted again by Kueue"
	}
	return ""
}

// Moments are complete once attempt 2 has made a step.
func (c *Cycle) Moments(ctx context.Context, n *Namespace, job *v1beta1.ResumableTrainingJob) (Moments, error) {
	c.mu.Lock()
	m := Moments{Evicted: c.evicted, Released: c.released, Readmitted: c.readmitted}
	c.mu.Unlock()
	first, err := n.Progress(ctx, job, 1)
	if err != nil {
		return m, err
	}
	second, err := n.Progress(ctx, job, 2)
	if err != nil {
		return m, err
	}
	switch {
	case m.Evicted.IsZero() || m.Released.IsZero() || m.Readmitted.IsZero():
		return m, errors.New("eviction, release and readmission were not all seen")
	case first == nil || first.Yield == nil || first.Yield.AcknowledgedAt == nil:
		return m, errors.New("the workers of attempt 1 never said that they knew")
	case second == nil || second.FirstStepAt == nil:
		return m, errors.New("the workers of attempt 2 never said that they made a step")
	}
	m.Knew, m.FirstStep = *first.Yield.AcknowledgedAt, *second.FirstStepAt
	return m, nil
}
