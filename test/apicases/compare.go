package apicases

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// skippedRules is the API server's remark beside errors of the schema. It is no
// error of its own.
const skippedRules = "some validation rules were not checked"

// CompareRefusals says how the errors that came differ from those wanted: each
// once, and no other.
func (c Case) CompareRefusals(got []Refusal) []string {
	var differences []string
	rest := slices.DeleteFunc(slices.Clone(got), func(r Refusal) bool { return strings.Contains(r.Message, skippedRules) })
	for _, want := range c.Refused {
		i := slices.IndexFunc(rest, func(r Refusal) bool {
			return r.Field == want.Field && strings.Contains(r.Message, want.Message)
		})
		if i < 0 {
			differences = append(differences, fmt.Sprintf("no error at %s that says %q", want.Field, want.Message))
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	for _, r := range rest {
		differences = append(differences, fmt.Sprintf("unwanted error at %s: %s", r.Field, r.Message))
	}
	return differences
}

// CompareStored says which fields of the stored object differ from those wanted.
func (c Case) CompareStored(stored *unstructured.Unstructured) []string {
	var differences []string
	for _, path := range slices.Sorted(maps.Keys(c.Stored)) {
		if got, want := get(stored, path), wholeNumbers(c.Stored[path]); !reflect.DeepEqual(got, want) {
			differences = append(differences, fmt.Sprintf("%s is stored as %#v, want %#v", path, got, want))
		}
	}
	return differences
}
