package compose

import (
	"fmt"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

// lack is what is missing before the job may be queued, and how to mend it.
type lack struct {
	reason  string
	message string
}

const (
	labelQueueName = "kueue.x-k8s.io/queue-name"
	// defaultLocalQueue is the name that makes Kueue capture what has no queue.
	defaultLocalQueue = "default"
)

// missing says what is missing; its reason is empty when nothing is.
func (s *situation) missing() lack {
	for _, check := range prerequisites {
		if l := check(s); l.reason != "" {
			return l
		}
	}
	return lack{}
}

// prerequisites are checked in this order.
var prerequisites = []func(*situation) lack{
	(*situation).templateUsable,
	(*situation).noQueueLabel,
	(*situation).queueExists,
	(*situation).podsNotCaptured,
	(*situation).priorityClassExists,
	(*situation).storeUsable,
}

func (s *situation) templateUsable() lack {
	jobs := s.spec.Template.Spec.ReplicatedJobs
	i := trainer(s.spec)
	switch {
	case len(jobs) == 0:
		return lack{v1beta1.ReasonTemplateInvalid, "spec.template.spec.replicatedJobs is empty; give it one entry with the trainer's pods"}
	case i < 0:
		return lack{v1beta1.ReasonTemplateInvalid, fmt.Sprintf("spec.trainer.replicatedJob is %q; set it to the name of one of spec.template.spec.replicatedJobs", s.spec.Trainer.ReplicatedJob)}
	}
	containers := jobs[i].Template.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return lack{v1beta1.ReasonTemplateInvalid, fmt.Sprintf("replicatedJob %q has no container", jobs[i].Name)}
	}
	want := s.spec.Trainer.Container
	for _, c := range containers {
		if want == "" || c.Name == want {
			return lack{}
		}
	}
	return lack{v1beta1.ReasonTemplateInvalid, fmt.Sprintf("spec.trainer.container is %q; set it to a container of replicatedJob %q", want, jobs[i].Name)}
}

// noQueueLabel: Kueue's own reconcilers would fail in a loop over our children.
func (s *situation) noQueueLabel() lack {
	if s.Parent.Labels[labelQueueName] == "" {
		return lack{}
	}
	return lack{v1beta1.ReasonQueueLabelOnJob, fmt.Sprintf("the label %s on a ResumableTrainingJob makes Kueue look after its children; remove it, spec.queueName is the queue", labelQueueName)}
}

func (s *situation) localQueue(name string) *LocalQueue {
	for i := range s.LocalQueues {
		if s.LocalQueues[i].Meta.Name == name {
			return &s.LocalQueues[i]
		}
	}
	return nil
}

func (s *situation) clusterQueue(name string) *ClusterQueue {
	for i := range s.ClusterQueues {
		if s.ClusterQueues[i].Meta.Name == name {
			return &s.ClusterQueues[i]
		}
	}
	return nil
}

func (s *situation) queueExists() lack {
	q := s.localQueue(s.spec.QueueName)
	if q == nil {
		return lack{v1beta1.ReasonQueueNotFound, fmt.Sprintf("LocalQueue %q does not exist in namespace %q; create it, or pause the job and change spec.queueName", s.spec.QueueName, s.Parent.Namespace)}
	}
	if s.clusterQueue(q.Spec.ClusterQueue) == nil {
		return lack{v1beta1.ReasonClusterQueueNotFound, fmt.Sprintf("ClusterQueue %q of LocalQueue %q does not exist; an administrator has to create it", q.Spec.ClusterQueue, s.spec.QueueName)}
	}
	return lack{}
}

// podsNotCaptured: with Kueue's Pod integration on, a LocalQueue named default
// takes every pod of the namespace that has no queue, ours too.
func (s *situation) podsNotCaptured() lack {
	if !s.PodIntegration || s.localQueue(defaultLocalQueue) == nil {
		return lack{}
	}
	return lack{v1beta1.ReasonDefaultLocalQueueCapturesPods, fmt.Sprintf(
		"the LocalQueue named %q in namespace %q would capture this job's pods; give that queue another name, or exclude the namespace from Kueue's Pod integration (managedJobsNamespaceSelector) and run RTJ with --kueue-pod-integration=false",
		defaultLocalQueue, s.Parent.Namespace)}
}

func (s *situation) priorityClassExists() lack {
	if s.spec.PriorityClassName == "" || s.priorityClass() != nil {
		return lack{}
	}
	return lack{v1beta1.ReasonPriorityClassNotFound, fmt.Sprintf("WorkloadPriorityClass %q does not exist; create it, or pause the job and change spec.priorityClassName", s.spec.PriorityClassName)}
}

// storeUsable: the store was read once, without failure.
func (s *situation) storeUsable() lack {
	if s.Catalog == nil || s.Catalog.ListedAt.IsZero() {
		s.wantCatalog(s.Now)
		return lack{v1beta1.ReasonCatalogNotRead, "the checkpoint store has not been read yet"}
	}
	if f := s.Catalog.Failure; f != nil {
		return lack{string(f.Kind), s.storeMessage()}
	}
	return lack{}
}

// storeMessage is why the store cannot be read, and what a person does about it.
func (s *situation) storeMessage() string {
	message := s.Catalog.Failure.Message
	switch s.Catalog.Failure.Kind {
	case checkpoint.AccessDenied:
		keys := "the environment's credentials"
		if c := s.spec.Checkpoint.Storage.Credentials; c != nil {
			keys = "the keys in Secret " + c.SecretName
		}
		return message + "; correct " + keys + ", or the policy of the bucket"
	case checkpoint.BucketNotFound:
		return message + "; create it, or correct spec.checkpoint.storage.uri"
	case checkpoint.Unreachable:
		return message + "; if that lasts, look at spec.checkpoint.storage.endpoint and at the store"
	}
	return message
}

// queuesActive reports whether neither queue is missing or stopped: only then
// does Kueue leave a condition of ours alone.
func (s *situation) queuesActive() bool {
	q := s.localQueue(s.spec.QueueName)
	if q == nil || stopped(q.Spec.StopPolicy) || condition(q.Status.Conditions, "Active").Status == "False" {
		return false
	}
	c := s.clusterQueue(q.Spec.ClusterQueue)
	return c != nil && !stopped(c.Spec.StopPolicy) && condition(c.Status.Conditions, "Active").Status != "False"
}

func stopped(policy string) bool { return policy != "" && policy != "None" }
