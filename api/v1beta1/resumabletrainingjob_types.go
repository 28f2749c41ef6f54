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
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')`,fieldPath=`.metadata`,message="metadata.name must start with a letter and consist of lower-case letters, digits and -: it begins the names of Services and pods"
// +kubebuilder:validation:XValidation:rule=`self.spec.template.spec.replicatedJobs.all(r, size(self.metadata.name) + size(r.name) + size(string(r.?replicas.orValue(1) - 1)) + size(string(r.template.spec.?completions.orValue(1) - 1)) + 15 <= 63)`,fieldPath=`.metadata`,message="shorten metadata.name or the name of a replicatedJob: the pod name <name>-<attempt, 5 digits>-<replicatedJob>-<job index>-<pod index>-<5 characters> would be longer than 63 characters"
// +kubebuilder:validation:XValidation:rule=`oldSelf.?status.attempt.orValue(0) < 1 || self.spec.checkpoint.storage.uri == oldSelf.spec.checkpoint.storage.uri`,fieldPath=`.spec.checkpoint.storage.uri`,message="checkpoint.storage.uri cannot change once an attempt ran, since its checkpoints would be lost from sight: create another job to write elsewhere"
// +kubebuilder:validation:XValidation:rule=`self.spec.queueName == oldSelf.spec.queueName || (self.spec.?suspend.orValue(false) && (oldSelf.spec.?suspend.orValue(false) || !(oldSelf.?status.phase.orValue("") in ['Starting', 'Running', 'Draining'])))`,fieldPath=`.spec.queueName`,message="queueName can change only while the job is paused: set suspend to true, wait for phase Paused, then change it"
// +kubebuilder:validation:XValidation:rule=`(self.spec.?priorityClassName.orValue("") == "") == (oldSelf.spec.?priorityClassName.orValue("") == "") || (self.spec.?suspend.orValue(false) && (oldSelf.spec.?suspend.orValue(false) || !(oldSelf.?status.phase.orValue("") in ['Starting', 'Running', 'Draining'])))`,fieldPath=`.spec.priorityClassName`,message="priorityClassName can be added or removed only while the job is paused: set suspend to true, wait for phase Paused, then change it; naming another class is possible at any time"
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
//
// +kubebuilder:validation:XValidation:rule=`self.trainer.?replicatedJob.orValue("") == "" || self.template.spec.replicatedJobs.exists(r, r.name == self.trainer.replicatedJob)`,fieldPath=`.trainer.replicatedJob`,message="trainer.replicatedJob must be the name of one of template.spec.replicatedJobs"
// +kubebuilder:validation:XValidation:rule=`self.trainer.?container.orValue("") == "" || !self.template.spec.replicatedJobs.exists(r, r.name == (self.trainer.?replicatedJob.orValue("") != "" ? self.trainer.replicatedJob : self.template.spec.replicatedJobs[0].name)) || self.template.spec.replicatedJobs.exists(r, r.name == (self.trainer.?replicatedJob.orValue("") != "" ? self.trainer.replicatedJob : self.template.spec.replicatedJobs[0].name) && r.template.spec.template.spec.containers.exists(c, c.name == self.trainer.container))`,fieldPath=`.trainer.container`,message="trainer.container must be the name of one of the containers of the trainer's replicatedJob"
// +kubebuilder:validation:XValidation:rule=`self.template.spec.replicatedJobs.all(r, !(r.name == (self.trainer.?replicatedJob.orValue("") != "" ? self.trainer.replicatedJob : self.template.spec.replicatedJobs[0].name)) || r.template.spec.?completions.orValue(1) == r.template.spec.?parallelism.orValue(1))`,fieldPath=`.template.spec.replicatedJobs`,message="completions and parallelism must be equal in the trainer's replicatedJob: all ranks run at once"
// +kubebuilder:validation:XValidation:rule=`self.template.spec.replicatedJobs.all(r, !(r.name == (self.trainer.?replicatedJob.orValue("") != "" ? self.trainer.replicatedJob : self.template.spec.replicatedJobs[0].name)) || (r.?replicas.orValue(1) >= 1 && r.?replicas.orValue(1) * r.template.spec.?parallelism.orValue(1) * self.trainer.?processesPerPod.orValue(1) <= 1000000))`,fieldPath=`.template.spec.replicatedJobs`,message="the trainer's replicatedJob must have at least 1 and at most 1000000 ranks: replicas x parallelism x trainer.processesPerPod"
type ResumableTrainingJobSpec struct {
	// suspend pauses the job: the workers are asked to checkpoint, the quota is
	// released, and nothing runs until it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// queueName is the Kueue LocalQueue, in the same namespace. It can change only
	// while the job is paused.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="queueName must be the name of a LocalQueue in the job's namespace: lower-case letters, digits, - and ."
	QueueName string `json:"queueName"`

	// priorityClassName is a Kueue WorkloadPriorityClass. Another class can be
	// named at any time; a class can be added or removed only while the job is
	// paused.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self == "" || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="priorityClassName must be the name of a WorkloadPriorityClass: lower-case letters, digits, - and ."
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
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.matches('^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$'))`,message="keys of identity.labels must have at most 63 letters, digits, -, _, . and /, and start and end with a letter or digit"
	// +kubebuilder:validation:XValidation:rule=`self.all(k, size(self[k]) <= 256)`,message="values of identity.labels must have at most 256 characters"
	// +kubebuilder:validation:XValidation:rule=`!('codeVersion' in self)`,message="remove codeVersion from identity.labels: set identity.codeVersion"
	Labels map[string]string `json:"labels,omitempty"`
}
