package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckpointSpec says where checkpoints are and how often they are written.
type CheckpointSpec struct {
	// storage is the S3-compatible store.
	Storage Storage `json:"storage"`

	// interval is the time between two periodic checkpoints, from 1s to 168h.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(h|m|s|ms))+$') && duration(self) >= duration('1s') && duration(self) <= duration('168h')`,message="checkpoint.interval must be a duration from 1s to 168h, for example 10m or 1h30m"
	Interval metav1.Duration `json:"interval,omitempty"`

	// retention says which checkpoints are to be kept. Accepted, not yet carried
	// out: nothing is deleted.
	// +optional
	// +kubebuilder:default={}
	Retention Retention `json:"retention,omitempty"`
}

// Storage is a place in an S3-compatible store.
type Storage struct {
	// uri is s3://bucket/prefix. The job's checkpoints are below
	// <uri>/<namespace>/<name>/<run id>/. It cannot change once an attempt ran.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches("^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()=+@,:~-]+)*$") && !self.matches('/[.]{1,2}(/|$)')`,message="checkpoint.storage.uri must be s3://bucket or s3://bucket/prefix: a bucket name of 3 to 63 lower-case characters, no slash at the end, no empty part, no query"
	URI string `json:"uri"`

	// endpoint is the server's URL, http or https, without a path; empty means
	// AWS. Credentials do not belong here.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self == "" || (self.matches('^https?://[^/?#@]+$') && isURL(self))`,message="checkpoint.storage.endpoint must be the server's URL, http://host:port or https://host:port, without user, path, query or slash at the end"
	Endpoint string `json:"endpoint,omitempty"`

	// region of the bucket.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`

	// credentials of the store; without them the environment's are used
	// (instance profile, web identity).
	// +optional
	Credentials *StorageCredentials `json:"credentials,omitempty"`
}

// StorageCredentials name a Secret with AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY and, where one is used, AWS_SESSION_TOKEN.
type StorageCredentials struct {
	// secretName is a Secret in the same namespace.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="checkpoint.storage.credentials.secretName must be the name of a Secret in the job's namespace: lower-case letters, digits, - and ."
	SecretName string `json:"secretName"`
}

// Retention says which checkpoints are to be kept. It is accepted and not yet
// carried out: nothing deletes checkpoints.
type Retention struct {
	// keepLast is the number of newest checkpoints to keep. Accepted, not yet
	// carried out: nothing is deleted. Until then use a lifecycle rule of the
	// bucket, with care: it does not know which checkpoints a resumption needs.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	KeepLast int32 `json:"keepLast,omitempty"`
}
