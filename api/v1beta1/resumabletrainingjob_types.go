package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResumableTrainingJob is a distributed training job that can be interrupted
// at any time and continues from its newest usable checkpoint.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rtj,categories=all
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queueName`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`
// +kubebuilder:printcolumn:name="Step",type=integer,JSONPath=`.status.progress.step`
// +kubebuilder:printcolumn:name="Checkpoint",type=date,JSONPath=`.status.checkpoint.latest.committedAt`
// +kubebuilder:printcolumn:name="Workers",type=string,JSONPath=`.status.workers`
// +kubebuilder:printcolumn:name="Preempted",type=integer,JSONPath=`.status.preemptions`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResumableTrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResumableTrainingJobSpec   `json:"spec"`
	Status ResumableTrainingJobStatus `json:"status,omitempty"`
}

// ResumableTrainingJobList is a list of ResumableTrainingJobs.
//
// +kubebuilder:object:root=true
type ResumableTrainingJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResumableTrainingJob `json:"items"`
}

// ResumableTrainingJobSpec says what to train, in which queue it waits, and
// where its checkpoints are.
type ResumableTrainingJobSpec struct {
	// suspend pauses the job: the workers are asked to checkpoint, the quota is
	// released, and nothing runs until it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// queueName is the Kueue LocalQueue, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	QueueName string `json:"queueName"`

	// priorityClassName is a Kueue WorkloadPriorityClass.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// template is the JobSet that each attempt runs as.
	Template JobSetTemplate `json:"template"`

	// trainer says which part of the template holds the ranks.
	// +optional
	// +kubebuilder:default={}
	Trainer Trainer `json:"trainer,omitempty"`

	// identity is what a checkpoint must have been written with to be resumed.
	// +optional
	Identity Identity `json:"identity,omitempty"`

	// checkpoint says where checkpoints are and how often they are written.
	Checkpoint CheckpointSpec `json:"checkpoint"`

	// yield is the time that an attempt gets when it is asked to end.
	// +optional
	// +kubebuilder:default={}
	Yield YieldSpec `json:"yield,omitempty"`

	// resume says which checkpoint the next attempt starts from.
	// +optional
	// +kubebuilder:default={}
	Resume ResumeSpec `json:"resume,omitempty"`

	// failurePolicy bounds failures of the application. Preemption, pauses and
	// other disruptions are never counted.
	// +optional
	// +kubebuilder:default={}
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// startup bounds the time from an admission's use to ready pods.
	// +optional
	// +kubebuilder:default={}
	Startup StartupSpec `json:"startup,omitempty"`
}

// Identity is what the user declares must be equal in a checkpoint for it to
// be resumed. Values that are not set are not compared.
type Identity struct {
	// codeVersion names the version of the training code as far as it matters
	// for the meaning of a checkpoint.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	CodeVersion string `json:"codeVersion,omitempty"`

	// labels are further values that must be equal, for example the model
	// configuration or the tokenizer.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Labels map[string]string `json:"labels,omitempty"`
}
