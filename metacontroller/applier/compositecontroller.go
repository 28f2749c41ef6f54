package applier

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// CompositeController is the API type of Metacontroller that ties a parent kind
// to its children and hooks: metacontroller.k8s.io/v1alpha1, cluster-scoped.
// [Parse] reads it from YAML.
type CompositeController struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CompositeControllerSpec `json:"spec"`
	// Status is not used by Metacontroller, but it stores it.
	Status *struct{} `json:"status,omitempty"`
}

// CompositeControllerSpec says what is watched and who decides.
type CompositeControllerSpec struct {
	ParentResource ParentResource   `json:"parentResource"`
	ChildResources []ChildResource  `json:"childResources,omitempty"`
	Hooks          *ControllerHooks `json:"hooks,omitempty"`
	// ResyncPeriodSeconds, if set, syncs every parent that often.
	ResyncPeriodSeconds *int32 `json:"resyncPeriodSeconds,omitempty"`
	// GenerateSelector makes the label controller-uid, with the uid of the parent
	// as its value, tell which children are whose. Without it the parent has a
	// spec.selector.
	GenerateSelector *bool `json:"generateSelector,omitempty"`
	// EndpointConfigs are TLS and authentication settings by host, for hooks over
	// the network.
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`
}

// Resource names one kind by its plural.
type Resource struct {
	// APIVersion is the group and version, such as "apps/v1".
	APIVersion string `json:"apiVersion"`
	// Resource is the lowercase plural, such as "deployments".
	Resource string `json:"resource"`
}

// ParentResource is the kind whose objects are synced.
type ParentResource struct {
	Resource `json:",inline"`
	// LabelSelector restricts which parents are synced; none means all.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// IgnoreStatusChanges leaves out syncs for changes of the parent that touch
	// neither generation, labels, annotations nor deletion.
	IgnoreStatusChanges *bool `json:"ignoreStatusChanges,omitempty"`
	// RevisionHistory belongs to rolling updates, which are refused.
	RevisionHistory *RevisionHistory `json:"revisionHistory,omitempty"`
}

// RevisionHistory says which fields of the parent a rolling update rolls out.
type RevisionHistory struct {
	FieldPaths []string `json:"fieldPaths,omitempty"`
}

// ChildResource is a kind that the hooks may return children of.
type ChildResource struct {
	Resource       `json:",inline"`
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
}

// UpdateStrategy says what happens to a child that exists and differs from what
// the hook returned.
type UpdateStrategy struct {
	Method       UpdateMethod  `json:"method,omitempty"`
	StatusChecks *StatusChecks `json:"statusChecks,omitempty"`
}

// UpdateMethod is one of the methods below. The default is OnDelete.
type UpdateMethod = plan.UpdateMethod

const (
	// OnDelete leaves the child alone until someone deletes it.
	OnDelete = plan.OnDelete
	// InPlace updates the child.
	InPlace = plan.InPlace
	// Recreate deletes the child; a later sync creates it anew.
	Recreate = plan.Recreate
	// RollingInPlace is refused.
	RollingInPlace UpdateMethod = "RollingInPlace"
	// RollingRecreate is refused.
	RollingRecreate UpdateMethod = "RollingRecreate"
)

// StatusChecks gate rolling updates, which are refused.
type StatusChecks struct {
	Conditions []StatusConditionCheck `json:"conditions,omitempty"`
}

// StatusConditionCheck is a condition that a child must have.
type StatusConditionCheck struct {
	Type   string  `json:"type"`
	Status *string `json:"status,omitempty"`
	Reason *string `json:"reason,omitempty"`
}

// ControllerHooks says which hooks there are. A hook that is not named is not
// called, also where the [Hooks] have it.
type ControllerHooks struct {
	Sync      *Hook `json:"sync,omitempty"`
	Finalize  *Hook `json:"finalize,omitempty"`
	Customize *Hook `json:"customize,omitempty"`
	// PreUpdateChild exists in the API but is called by nobody; it is refused.
	PreUpdateChild *Hook `json:"preUpdateChild,omitempty"`
	// PostUpdateChild exists in the API but is called by nobody; it is refused.
	PostUpdateChild *Hook `json:"postUpdateChild,omitempty"`
}

// Hook says how one hook is called.
type Hook struct {
	// Version of the messages: [HookV2], or [HookV1], which is also what leaving it
	// out means. Hooks in process get v2 whatever it says; what customize may ask
	// for depends on it all the same.
	Version string   `json:"version,omitempty"`
	Webhook *Webhook `json:"webhook,omitempty"`
}

// The versions of the messages. They differ in the keys of children and related,
// and in what a customize hook may ask for.
const (
	HookV1 = "v1"
	HookV2 = "v2"
)

// Webhook is a hook that is reached over HTTP. Hooks in process use only its
// Timeout.
type Webhook struct {
	URL     *string           `json:"url,omitempty"`
	Path    *string           `json:"path,omitempty"`
	Service *ServiceReference `json:"service,omitempty"`
	// Timeout of one call, 10s by default.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// ResponseUnMarshallMode is "strict", the default of v2, or "loose", that of v1.
	ResponseUnMarshallMode *string      `json:"responseUnMarshallMode,omitempty"`
	Etag                   *WebhookEtag `json:"etag,omitempty"`
	EndpointSettings       `json:",inline"`
}

// ServiceReference is a Service that serves hooks.
type ServiceReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Port is 80 by default.
	Port *int32 `json:"port,omitempty"`
	// Protocol is http, the default, or https.
	Protocol *string `json:"protocol,omitempty"`
}

// WebhookEtag caches the answers of a webhook by their ETag.
type WebhookEtag struct {
	Enabled *bool `json:"enabled,omitempty"`
	// CacheTimeoutSeconds is for how long an answer is kept.
	CacheTimeoutSeconds *int32 `json:"cacheTimeoutSeconds,omitempty"`
	// CacheCleanupSeconds is how often answers that are too old are removed.
	CacheCleanupSeconds *int32 `json:"cacheCleanupSeconds,omitempty"`
}

// CABundle is where the certificates come from that sign the webhook's: exactly
// one of the three.
type CABundle struct {
	// Inline is PEM text.
	Inline *string `json:"inline,omitempty"`
	// SecretRef and ConfigMapRef name PEM text; the key is ca.crt by default.
	SecretRef    *KeyReference `json:"secretRef,omitempty"`
	ConfigMapRef *KeyReference `json:"configMapRef,omitempty"`
}

// KeyReference is one key of a Secret or ConfigMap.
type KeyReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Key       string `json:"key,omitempty"`
}

// SecretReference is a Secret.
type SecretReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// ClientTLS is the certificate that is shown to the webhook.
type ClientTLS struct {
	SecretRef SecretReference `json:"secretRef"`
	// CertKey is the key of the PEM certificate, tls.crt by default.
	CertKey string `json:"certKey,omitempty"`
	// PrivateKeyKey is the key of the PEM private key, tls.key by default.
	PrivateKeyKey string `json:"privateKeyKey,omitempty"`
}

// Authorization is an Authorization header.
type Authorization struct {
	// Type of the header, Bearer by default. Basic is refused: see BasicAuth.
	Type string `json:"type,omitempty"`
	// SecretRef names the credential. Its key has no default.
	SecretRef KeyReference `json:"secretRef"`
}

// BasicAuth is user name and password, from one Secret.
type BasicAuth struct {
	SecretRef SecretReference `json:"secretRef"`
	// UsernameKey is username by default.
	UsernameKey string `json:"usernameKey,omitempty"`
	// PasswordKey is password by default.
	PasswordKey string `json:"passwordKey,omitempty"`
}

// EndpointSettings are TLS and authentication settings.
type EndpointSettings struct {
	CABundle  *CABundle  `json:"caBundle,omitempty"`
	ClientTLS *ClientTLS `json:"clientTLS,omitempty"`
	// Authorization excludes BasicAuth.
	Authorization *Authorization `json:"authorization,omitempty"`
	BasicAuth     *BasicAuth     `json:"basicAuth,omitempty"`
}

// EndpointConfig holds the settings that the hooks of one host share. A hook that
// has settings of its own uses none of these.
type EndpointConfig struct {
	// Host is a host, or a host and port.
	Host             string `json:"host"`
	EndpointSettings `json:",inline"`
}
