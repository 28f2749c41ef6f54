package v1beta1

import (
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// JobSetTemplate is the JobSet that each attempt runs as. RTJ sets suspend,
// the failure policy, restart policies and back-off limits itself.
type JobSetTemplate struct {
	// metadata is added to each attempt's JobSet.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitempty"`

	// spec is the JobSet's specification.
	Spec jobset.JobSetSpec `json:"spec"`
}

// TemplateMetadata are the labels and annotations of an attempt's JobSet.
type TemplateMetadata struct {
	// labels of the JobSet.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the JobSet.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Trainer says which part of the template holds the ranks.
type Trainer struct {
	// replicatedJob is the name of the replicatedJob whose pods hold the ranks.
	// The default is the template's first one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ReplicatedJob string `json:"replicatedJob,omitempty"`

	// container is the container that trains. The default is the pod's first one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`

	// processesPerPod is the number of ranks in each pod.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	ProcessesPerPod int32 `json:"processesPerPod,omitempty"`
}
