// Package v1beta1 is the API of RTJ: the ResumableTrainingJob.
//
// It is the hub and the stored version of group training.rtj.dev. A step is
// the number of optimizer steps applied; a world size counts ranks, not pods.
//
// +kubebuilder:object:generate=true
// +groupName=training.rtj.dev
package v1beta1
