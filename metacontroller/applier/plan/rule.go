package plan

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"rtj.dev/rtj/hooks/contract"
)

// Rule is a rule of a customize hook, ready for use: it selects related objects.
type Rule struct {
	Kind      Kind
	Selector  labels.Selector
	Namespace string
	Names     []string
	// NamespaceSelector is nil where the rule has none.
	NamespaceSelector labels.Selector
}

// NewRule makes a rule about a kind.
func NewRule(k Kind, r contract.RelatedResourceRule) (*Rule, error) {
	rule := &Rule{Kind: k, Namespace: r.Namespace, Names: r.Names, Selector: labels.Everything()}
	if !k.Namespaced && (r.Namespace != "" || r.NamespaceSelector != nil) {
		return nil, fmt.Errorf("%s have no namespace to select by", r.Resource)
	}
	var err error
	if r.LabelSelector != nil {
		if rule.Selector, err = metav1.LabelSelectorAsSelector(r.LabelSelector); err != nil {
			return nil, err
		}
	}
	if r.NamespaceSelector != nil {
		if rule.NamespaceSelector, err = metav1.LabelSelectorAsSelector(r.NamespaceSelector); err != nil {
			return nil, err
		}
	}
	return rule, nil
}

// RestrictToV1 applies what version v1 of a customize hook has for a parent in a
// namespace: of the kinds that have one, it selects objects of its own only.
func (r *Rule) RestrictToV1(namespace string) error {
	switch {
	case r.NamespaceSelector != nil:
		return errors.New("namespaceSelector: not in version v1 with a parent in a namespace; make the hook v2")
	case r.Namespace != "" && r.Namespace != namespace:
		return fmt.Errorf("namespace %s: version v1 reaches only the parent's, which is %s; make the hook v2, and sync and finalize too", r.Namespace, namespace)
	case r.Kind.Namespaced:
		r.Namespace = namespace
	}
	return nil
}

// MayMatch tells whether the rule selects an object of its kind, without a look at
// the object's namespace.
func (r *Rule) MayMatch(o *Object) bool {
	return (r.Namespace == "" || r.Namespace == o.GetNamespace()) &&
		(len(r.Names) == 0 || slices.Contains(r.Names, o.GetName())) &&
		(r.Selector.Empty() || r.Selector.Matches(labels.Set(o.GetLabels())))
}
