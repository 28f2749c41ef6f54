package contract

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// CustomizeResponse is what the customize hook answers.
type CustomizeResponse struct {
	// RelatedResources select the objects that the sync and finalize hooks are to
	// see, and whose changes call them again.
	RelatedResources []RelatedResourceRule `json:"relatedResources"`
}

// RelatedResourceRule selects objects of one kind. Without namespace, names and
// selectors it selects all of them.
type RelatedResourceRule struct {
	// APIVersion is the group and version of the kind, such as "batch/v1".
	APIVersion string `json:"apiVersion"`
	// Resource is the lowercase plural of the kind, such as "jobs".
	Resource string `json:"resource"`
	// LabelSelector selects by the labels of the object. It excludes Names.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// NamespaceSelector selects by the labels of the object's namespace. It
	// excludes Names and Namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Namespace selects the objects of one namespace.
	Namespace string `json:"namespace,omitempty"`
	// Names select objects by name.
	Names []string `json:"names,omitempty"`
}

// DecodeCustomizeResponse decodes the answer of a customize hook. It refuses
// unknown and duplicate fields, trailing data, and rules that do not validate.
func DecodeCustomizeResponse(data []byte) (*CustomizeResponse, error) {
	r, passedOver, err := DecodeCustomizeResponseLoosely(data)
	if err != nil {
		return nil, err
	}
	if len(passedOver) > 0 {
		reasons := make([]string, len(passedOver))
		for i, e := range passedOver {
			reasons[i] = e.Reason
		}
		return nil, fieldError("", "%s", strings.Join(reasons, "; "))
	}
	return r, nil
}

// DecodeCustomizeResponseLoosely is [DecodeCustomizeResponse] with
// responseUnMarshallMode loose: it passes over unknown fields, takes the last of
// those that occur twice, and returns what it passed over. An answer that has
// unknown fields only is refused all the same.
func DecodeCustomizeResponseLoosely(data []byte) (r *CustomizeResponse, passedOver []*Error, err error) {
	if IsNull(data) {
		return nil, nil, fieldError("", "want an object, got null")
	}
	r = &CustomizeResponse{}
	strict, err := kjson.UnmarshalStrict(data, r)
	if err != nil {
		return nil, nil, fieldError("", "not JSON: %v", err)
	}
	for _, e := range strict {
		passedOver = append(passedOver, fieldError("", "%v", e))
	}
	if len(strict) > 0 && !names(data, "relatedResources") {
		return nil, nil, passedOver[0]
	}
	if err := r.Validate(); err != nil {
		return nil, nil, err
	}
	return r, passedOver, nil
}

// names tells whether an object has a field of that name.
func names(object []byte, field string) bool {
	s := &scanner{data: object}
	has := false
	err := s.names(func(key string, _ bool) error {
		has = has || key == field
		return s.skip()
	})
	return err == nil && has
}

// Validate returns an [*Error] for the first rule that contradicts itself or
// leaves out which kind it selects.
func (r *CustomizeResponse) Validate() error {
	for i, rule := range r.RelatedResources {
		if err := rule.validate(); err != nil {
			return in(fmt.Sprintf("relatedResources[%d]", i), err)
		}
	}
	return nil
}

func (r *RelatedResourceRule) validate() error {
	switch {
	case r.APIVersion == "":
		return fieldError("apiVersion", "missing")
	case r.Resource == "":
		return fieldError("resource", "missing: the lowercase plural of the kind, such as \"configmaps\"")
	case len(r.Names) > 0 && r.LabelSelector != nil:
		return fieldError("names", "excludes labelSelector")
	case len(r.Names) > 0 && r.NamespaceSelector != nil:
		return fieldError("names", "excludes namespaceSelector")
	case r.Namespace != "" && r.NamespaceSelector != nil:
		return fieldError("namespace", "excludes namespaceSelector")
	}
	if _, err := metav1.LabelSelectorAsSelector(r.LabelSelector); err != nil {
		return fieldError("labelSelector", "%v", err)
	}
	if _, err := metav1.LabelSelectorAsSelector(r.NamespaceSelector); err != nil {
		return fieldError("namespaceSelector", "%v", err)
	}
	return nil
}
