package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckpointSpec says where checkpoints are and how often they are written.
type CheckpointSpec struct {
	// storage is the S3-compatible store.
	Storage Storage `json:"storage"`

	// interval is the time between two periodic checkpoints.
	// +optional
	// +kubebuilder:default="10m"
	Interval metav1.Duration `json:"interval,omitempty"`

	// retention says which checkpoints are kept.
	// +optional
	// +kubebuilder:default={}
	Retention Retention `json:"retention,omitempty"`
}

// Storage is a place in an S3-compatible store.
type Storage struct {
	// uri is s3://bucket/prefix. The job's checkpoints are below
	// <uri>/<namespace>/<name>/<run id>/. It cannot change once an attempt ran.
	// +kubebuilder:validation:MaxLength=1024
	URI string `json:"uri"`

	// endpoint is the server's URL; empty means AWS.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
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
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// Retention says which checkpoints are kept. The two newest ones and every one
// that a resumption may need are always kept.
type Retention struct {
	// keepLast is the number of newest checkpoints that are kept.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	KeepLast int32 `json:"keepLast,omitempty"`
}
