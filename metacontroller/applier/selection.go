package applier

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// termsOf returns terms by which a selector and the objects that it selects find
// each other in an index: each object that it matches has at least one of them
// among its own, see [termsOfLabels]. Of several requirements the one counts that
// leaves the fewest objects to look at.
func termsOf(selector labels.Selector) []string {
	if term := narrowest(selector); term != "" {
		return []string{term}
	}
	var oneOf, present []string
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In:
			if values := r.ValuesUnsorted(); oneOf == nil || len(values) < len(oneOf) {
				oneOf = make([]string, len(values))
				for i, value := range values {
					oneOf[i] = r.Key() + "=" + value
				}
			}
		case selection.Exists:
			present = []string{r.Key()}
		}
	}
	switch {
	case oneOf != nil:
		return oneOf
	case present != nil:
		return present
	default:
		return []string{""} // it only says what an object must not have
	}
}

// termsOfLabels returns the terms of an object: that it has a label, that a label
// has its value, and the term "" that every object has.
func termsOfLabels(set map[string]string) []string {
	terms := make([]string, 1, 1+2*len(set))
	for key, value := range set {
		terms = append(terms, key, key+"="+value)
	}
	return terms
}
