package hooks

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/hooks/contract"
)

// defaultLocalQueue is the LocalQueue that Kueue gives to jobs without a queue;
// one of this name would take the pods of an attempt for jobs of their own.
const defaultLocalQueue = "default"

// jobCompletionIndex is the label with the completion index of a Job's pod.
const jobCompletionIndex = "batch.kubernetes.io/job-completion-index"

// RelatedTo says which objects besides its children decide about a job.
func RelatedTo(parent *v1beta1.ResumableTrainingJob) *contract.CustomizeResponse {
	namespace := parent.Namespace
	attempts := &metav1.LabelSelector{MatchLabels: map[string]string{v1beta1.LabelUID: string(parent.UID)}}
	leader := &metav1.LabelSelector{MatchLabels: map[string]string{
		v1beta1.LabelUID:              string(parent.UID),
		v1alpha2.ReplicatedJobNameKey: trainer(parent),
		v1alpha2.JobIndexKey:          "0",
		jobCompletionIndex:            "0",
	}}
	queues := []string{parent.Spec.QueueName}
	if parent.Spec.QueueName != defaultLocalQueue {
		queues = append(queues, defaultLocalQueue)
	}
	rules := []contract.RelatedResourceRule{
		{APIVersion: batchVersion, Resource: "jobs", Namespace: namespace, LabelSelector: attempts},
		{APIVersion: coreVersion, Resource: "pods", Namespace: namespace, LabelSelector: leader},
		{APIVersion: kueueVersion, Resource: "localqueues", Namespace: namespace, Names: queues},
		{APIVersion: kueueVersion, Resource: "clusterqueues"},
		{APIVersion: kueueVersion, Resource: "resourceflavors"},
	}
	if class := parent.Spec.PriorityClassName; class != "" {
		rules = append(rules, contract.RelatedResourceRule{APIVersion: kueueVersion, Resource: "workloadpriorityclasses", Names: []string{class}})
	}
	return &contract.CustomizeResponse{RelatedResources: rules}
}

// trainer returns the name of the replicatedJob that holds the ranks.
func trainer(parent *v1beta1.ResumableTrainingJob) string {
	if name := parent.Spec.Trainer.ReplicatedJob; name != "" {
		return name
	}
	if jobs := parent.Spec.Template.Spec.ReplicatedJobs; len(jobs) > 0 {
		return jobs[0].Name
	}
	return ""
}
