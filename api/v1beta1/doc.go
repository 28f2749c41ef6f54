// Package v1beta1 is the API of RTJ: the ResumableTrainingJob.
//
// It is the hub and the stored version of group training.rtj.dev. A step is
// the number of optimizer steps applied; a world size counts ranks, not pods.
//
// The CRD is generated from the types here and from schema_overlay.yaml, which
// holds what markers cannot say. Rules stand beside the fields; those that need
// the name, the status or the object before the change stand at the root.
//
// The queue, and whether there is a priority class, may change when suspend is
// true before and after the edit, also while the job drains: a Workload's queue
// is changed only while it holds no quota. An edit that sets suspend and changes
// them at once is refused while status says that an attempt runs. Status may lag
// behind; an edit that slips through moves the job once its attempt has drained.
//
// +kubebuilder:object:generate=true
// +groupName=training.rtj.dev
package v1beta1
