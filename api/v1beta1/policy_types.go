package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// YieldSpec is the time that an attempt gets when it is asked to end.
type YieldSpec struct {
	// gracePeriod is the budget from the request to the committed checkpoint.
	// When it is over the workers are stopped. From 1s to 24h.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(h|m|s|ms))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')`,message="yield.gracePeriod must be a duration from 1s to 24h, for example 5m or 1h30m"
	GracePeriod metav1.Duration `json:"gracePeriod,omitempty"`

	// forceAfter is how long after that pods may still be terminating before
	// the attempt is given up as lost with its node. It is never less than the
	// pods' own grace period and two minutes. From 1s to 168h.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(h|m|s|ms))+$') && duration(self) >= duration('1s') && duration(self) <= duration('168h')`,message="yield.forceAfter must be a duration from 1s to 168h, for example 10m or 1h"
	ForceAfter metav1.Duration `json:"forceAfter,omitempty"`
}

// ResumeSpec says which checkpoint the next attempt starts from.
type ResumeSpec struct {
	// from restricts resumption to this checkpoint id and its descendants.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self == "" || self.matches('^[0-9]{6}-[0-9]{12}-[0-9a-f]{12}-[0-9a-f]{16}$')`,message="resume.from must be a checkpoint id as in status.checkpoint.latest.id, for example 000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55, or empty"
	From string `json:"from,omitempty"`

	// compatibility is what may differ between a checkpoint and the attempt that
	// resumes it.
	// +optional
	// +kubebuilder:default={}
	Compatibility Compatibility `json:"compatibility,omitempty"`

	// onNone says what happens when checkpoints exist and none of them fits.
	// +optional
	// +kubebuilder:default=Wait
	OnNone OnNone `json:"onNone,omitempty"`
}

// Compatibility is what may differ between a checkpoint and the attempt that
// resumes it.
type Compatibility struct {
	// worldSize: Reshard (the default) allows another world size where the
	// checkpoint's components can be read at it; Exact allows none, and no
	// checkpoint of which any component was left out.
	// +optional
	// +kubebuilder:default=Reshard
	WorldSize WorldSizePolicy `json:"worldSize,omitempty"`

	// identity: Match (the default) requires spec.identity to be equal in the
	// checkpoint; Ignore does not look at it.
	// +optional
	// +kubebuilder:default=Match
	Identity IdentityPolicy `json:"identity,omitempty"`
}

// WorldSizePolicy says whether a checkpoint may be read at another world size.
// +kubebuilder:validation:Enum=Reshard;Exact
type WorldSizePolicy string

// IdentityPolicy says whether the declared identity must match.
// +kubebuilder:validation:Enum=Match;Ignore
type IdentityPolicy string

// OnNone says what happens when checkpoints exist and none fits.
// +kubebuilder:validation:Enum=Wait;StartFresh
type OnNone string

// Values of the policies above.
const (
	WorldSizeReshard WorldSizePolicy = "Reshard"
	WorldSizeExact   WorldSizePolicy = "Exact"

	IdentityMatch  IdentityPolicy = "Match"
	IdentityIgnore IdentityPolicy = "Ignore"

	// OnNoneWait keeps the job queued until a checkpoint fits.
	OnNoneWait OnNone = "Wait"
	// OnNoneStartFresh starts at step 0, beside the checkpoints that exist.
	OnNoneStartFresh OnNone = "StartFresh"
)

// FailurePolicy bounds failures of the application.
type FailurePolicy struct {
	// maxFailures is the number of failures in a row without a checkpoint of a
	// higher step that are tolerated; one more and the job is Failed.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxFailures *int32 `json:"maxFailures,omitempty"`

	// backoff is the wait after the first failure without progress; it doubles
	// with each further one, up to ten minutes. A wait of more than 30 seconds
	// gives the quota back. From 1s to 10m.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(h|m|s|ms))+$') && duration(self) >= duration('1s') && duration(self) <= duration('10m')`,message="failurePolicy.backoff must be a duration from 1s to 10m, for example 10s or 2m"
	Backoff metav1.Duration `json:"backoff,omitempty"`
}

// StartupSpec bounds the start of an attempt.
type StartupSpec struct {
	// deadline is the time from an admission's use to ready pods. An attempt
	// that takes longer gives its quota back and waits; that is no failure. From
	// 10s to 24h.
	// +optional
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(h|m|s|ms))+$') && duration(self) >= duration('10s') && duration(self) <= duration('24h')`,message="startup.deadline must be a duration from 10s to 24h, for example 15m or 1h"
	Deadline metav1.Duration `json:"deadline,omitempty"`
}
