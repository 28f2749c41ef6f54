package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

const (
	namespace = "demo"
	quota     = 2
	// preemptAfter is the step after which the other job comes.
	preemptAfter = 60
	waitLimit    = 2 * time.Minute
)

var (
	low  = harness.Job{Name: "low", Steps: 300, Priority: harness.Low}
	high = harness.Job{Name: "high", Steps: 80, Priority: harness.High, Seed: 2}
)

// tell plays the story and returns its figures.
func tell(ctx context.Context, c *harness.Cluster) (string, error) {
	n, err := stage(ctx, c)
	if err != nil {
		return "", err
	}
	begun := time.Now()
	reference, err := harness.Reference(ctx, c.Options.Root, low)
	if err != nil {
		return "", err
	}
	fmt.Printf("The same training, %d steps on 2 ranks, uninterrupted and without a cluster: done in %.1f s, for its loss curve.\n\n", len(reference), time.Since(begun).Seconds())

	line, seen := newTimeline(), &harness.Cycle{}
	observing, stop := context.WithCancel(ctx)
	var observers sync.WaitGroup
	observers.Go(func() { n.WatchJobs(observing, func(j *v1beta1.ResumableTrainingJob) { sayPhase(line, j) }) })
	observers.Go(func() { n.WatchWorkloads(observing, func(w *kueue.Workload) { sayAdmission(line, seen, w) }) })
	observers.Go(func() { sayProgress(observing, line, n) })
	err = play(ctx, n, line)
	stop()
	observers.Wait()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, n.Report(context.WithoutCancel(ctx)))
	}
	return conclude(ctx, n, seen, reference)
}

// stage makes the namespace anew.
func stage(ctx context.Context, c *harness.Cluster) (*harness.Namespace, error) {
	old := &harness.Namespace{Cluster: c, Name: namespace}
	if _, err := c.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		if err != nil {
			return nil, err
		}
		fmt.Println("Clearing away the demo before this one.")
		if err := old.Delete(ctx); err != nil {
			return nil, err
		}
		if err := harness.Until(ctx, waitLimit, "the old namespace is gone", old.Gone); err != nil {
			return nil, err
		}
	}
	var n *harness.Namespace
	err := harness.Until(ctx, waitLimit, "namespace and queue are made", func(ctx context.Context) (bool, string, error) {
		var err error
		n, err = c.NewNamespace(ctx, namespace, harness.QueueOptions{GPUs: quota})
		return err == nil, "", err
	})
	return n, err
}

func play(ctx context.Context, n *harness.Namespace, line *timeline) error {
	line.say("low", "applied: 2 workers with one GPU each, %d steps, low priority; the queue has %d GPUs", low.Steps, quota)
	if err := n.Create(ctx, low); err != nil {
		return err
	}
	job, err := n.UntilJob(ctx, low.Name, waitLimit, "it runs", harness.InPhase(v1beta1.PhaseRunning, v1beta1.PhaseFailed))
	if err != nil {
		return err
	}
	if err := harness.Until(ctx, waitLimit, "some steps are made", func(ctx context.Context) (bool, string, error) {
		p, err := n.Progress(ctx, job, 1)
		return err == nil && p != nil && p.Step >= preemptAfter, "too few", err
	}); err != nil {
		return err
	}
	line.say("high", "applied: needs the same %d GPUs, %d steps, high priority", quota, high.Steps)
	if err := n.Create(ctx, high); err != nil {
		return err
	}
	for _, j := range []harness.Job{high, low} {
		job, err := n.UntilJob(ctx, j.Name, waitLimit, "the end", func(j *v1beta1.ResumableTrainingJob) bool { return j.Status.Phase.Terminal() })
		if err != nil {
			return err
		}
		if job.Status.Phase != v1beta1.PhaseSucceeded {
			return fmt.Errorf("%s: %s", j.Name, harness.Standing(job))
		}
	}
	return nil
}

func conclude(ctx context.Context, n *harness.Namespace, seen *harness.Cycle, reference []harness.Loss) (string, error) {
	job, err := n.Job(ctx, low.Name)
	if err != nil {
		return "", err
	}
	f, err := account(ctx, n, job, seen)
	if err != nil {
		return "", err
	}
	before, after := harness.Ledger(job, 1), harness.Ledger(job, 2)
	if before.CommittedStep == nil || after.RestoredStep != *before.CommittedStep {
		return "", fmt.Errorf("attempt 2 began at step %d, not where attempt 1 stopped: %+v", after.RestoredStep, before)
	}
	curve, err := n.Curve(ctx, job)
	if err != nil {
		return "", err
	}
	if err := harness.SameCurve(reference, curve); err != nil {
		return "", err
	}
	fmt.Printf("\nStopped after step %d and went on with step %d.\n", *before.CommittedStep, after.RestoredStep+1)
	return fmt.Sprintf("%s, loss curve of %d steps equal to the uninterrupted one bit for bit", f, len(curve)), nil
}

func sayPhase(line *timeline, j *v1beta1.ResumableTrainingJob) {
	ready := harness.Condition(j.Status.Conditions, v1beta1.ConditionReady)
	if j.Status.Phase != "" {
		line.once(time.Now(), j.Name, fmt.Sprintf("%s (%s)%s", j.Status.Phase, ready.Reason, attemptText(j)))
	}
	if at := j.Status.Checkpoint.Latest; at != nil {
		line.once(time.Now(), j.Name, fmt.Sprintf("checkpoint of step %d is complete in the store", at.Step))
	}
}

func attemptText(j *v1beta1.ResumableTrainingJob) string {
	if j.Status.Attempt == 0 || j.Status.Phase == v1beta1.PhaseSucceeded {
		return ""
	}
	return fmt.Sprintf(", attempt %d", j.Status.Attempt)
}

func sayAdmission(line *timeline, seen *harness.Cycle, w *kueue.Workload) {
	switch w.Name {
	case low.Name + "-w1":
		if harness.Reserved(w) {
			line.once(time.Now(), low.Name, "admitted by Kueue")
		}
		if what := seen.Seen(w); what != "" {
			line.say(low.Name, "%s", what)
		}
	case high.Name + "-w1":
		if harness.Reserved(w) {
			line.once(time.Now(), high.Name, "admitted by Kueue")
		}
	}
}

// sayProgress reads what the workers of the preempted job report.
func sayProgress(ctx context.Context, line *timeline, n *harness.Namespace) {
	const every = 60
	for ctx.Err() == nil {
		if job, err := n.Job(ctx, low.Name); err == nil {
			for attempt := int32(1); attempt <= job.Status.Attempt; attempt++ {
				p, err := n.Progress(ctx, job, attempt)
				if err != nil || p == nil {
					continue
				}
				if p.FirstStepAt != nil {
					line.once(*p.FirstStepAt, low.Name, fmt.Sprintf("attempt %d made its first new step", attempt))
				}
				if p.Yield != nil && p.Yield.AcknowledgedAt != nil {
					line.once(*p.Yield.AcknowledgedAt, low.Name, fmt.Sprintf("the workers of attempt %d know that they are to yield", attempt))
				}
				if step := p.Step / every * every; step > 0 {
					line.once(time.Now(), low.Name, fmt.Sprintf("step %d of %d", step, low.Steps))
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}
