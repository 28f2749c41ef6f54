package compose

import (
	"time"

	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rtj.dev/rtj/api/v1beta1"
)

// The API server fills in defaults; these are the same ones for a spec that did
// not pass through it.
const (
	defaultGracePeriod     = 5 * time.Minute
	defaultForceAfter      = 10 * time.Minute
	defaultStartupDeadline = 15 * time.Minute
	defaultBackoff         = 10 * time.Second
	defaultInterval        = 10 * time.Minute
	defaultMaxFailures     = int32(3)
	// podGracePeriod is Kubernetes' default for a pod.
	podGracePeriod = 30 * time.Second
)

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

func (s *situation) gracePeriod() time.Duration {
	return orDefault(s.spec.Yield.GracePeriod.Duration, defaultGracePeriod)
}

func (s *situation) startupDeadline() time.Duration {
	return orDefault(s.spec.Startup.Deadline.Duration, defaultStartupDeadline)
}

func (s *situation) maxFailures() int32 {
	if s.spec.FailurePolicy.MaxFailures == nil {
		return defaultMaxFailures
	}
	return *s.spec.FailurePolicy.MaxFailures
}

func (s *situation) processesPerPod() int32 { return max(s.spec.Trainer.ProcessesPerPod, 1) }

// trainer returns the index of the replicatedJob that holds the ranks; -1 when
// the template has none of that name.
func trainer(spec *v1beta1.ResumableTrainingJobSpec) int {
	jobs := spec.Template.Spec.ReplicatedJobs
	if spec.Trainer.ReplicatedJob == "" {
		return len(jobs[:min(len(jobs), 1)]) - 1
	}
	for i := range jobs {
		if jobs[i].Name == spec.Trainer.ReplicatedJob {
			return i
		}
	}
	return -1
}

// terminationGrace is the grace period that the trainer's pods get.
func (s *situation) terminationGrace() time.Duration {
	i := trainer(s.spec)
	if i < 0 {
		return podGracePeriod
	}
	if set := s.spec.Template.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec.TerminationGracePeriodSeconds; set != nil {
		return time.Duration(*set) * time.Second
	}
	return max(podGracePeriod, s.gracePeriod())
}

// forceAfter is how long after suspension a drain is forced: never less than the
// pods' own grace period and two minutes.
func (s *situation) forceAfter() time.Duration {
	return max(orDefault(s.spec.Yield.ForceAfter.Duration, defaultForceAfter), s.terminationGrace()+2*time.Minute)
}

// replicas and parallelism of a replicatedJob, with the API's defaults.
func replicas(job *jobset.ReplicatedJob) int32 { return max(job.Replicas, 1) }

func parallelism(job *jobset.ReplicatedJob) int32 {
	if p := job.Template.Spec.Parallelism; p != nil {
		return *p
	}
	return 1
}
