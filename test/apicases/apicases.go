// Package apicases holds what the API server must accept and refuse, as data.
// The same cases run against the schema in process (test/crd) and against a
// real kube-apiserver (test/e2e).
package apicases

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

//go:embed base.yaml cases/*.yaml
var files embed.FS

// Case is one write of a job. The object is base.yaml with changes; a change
// names a field by its path ("spec.template.spec.replicatedJobs[0].name") and
// gives its value, null removes it.
type Case struct {
	// Group is the file that the case is in, Name says what is special.
	Group string `json:"-"`
	Name  string `json:"name"`
	// Before, where it is there, are the changes that make the object as stored;
	// the case is then an update. Changes of the status are written to the status.
	Before map[string]any `json:"before,omitempty"`
	// Set are the changes of the object that is written; an update starts from the
	// stored object.
	Set map[string]any `json:"set,omitempty"`
	// Refused are the errors wanted, all of them; empty: the write is accepted.
	Refused []Refusal `json:"refused,omitempty"`
	// Stored are fields of the object as accepted, with defaults.
	Stored map[string]any `json:"stored,omitempty"`
}

// Refusal is one error: the field that it names and a part of its message.
type Refusal struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// All is every case, in the order of the files.
func All() ([]Case, error) {
	entries, err := files.ReadDir("cases")
	if err != nil {
		return nil, err
	}
	var all []Case
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("cases", e.Name()))
		if err != nil {
			return nil, err
		}
		var cases []Case
		if err := yaml.UnmarshalStrict(text, &cases); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for i := range cases {
			cases[i].Group = strings.TrimSuffix(e.Name(), ".yaml")
		}
		all = append(all, cases...)
	}
	return all, nil
}

// Objects are the object that is stored before the write, nil for a create, and
// the one that is written.
func (c Case) Objects() (before, written *unstructured.Unstructured, err error) {
	base, err := Base()
	if err != nil {
		return nil, nil, err
	}
	if c.Before != nil {
		if err := Change(base, c.Before); err != nil {
			return nil, nil, fmt.Errorf("before: %w", err)
		}
		before = base.DeepCopy()
	}
	if err := Change(base, c.Set); err != nil {
		return nil, nil, fmt.Errorf("set: %w", err)
	}
	return before, base, nil
}

// Base is the job that the cases change: complete, and accepted as it is.
func Base() (*unstructured.Unstructured, error) {
	text, err := files.ReadFile("base.yaml")
	if err != nil {
		return nil, err
	}
	var object any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("base.yaml: %w", err)
	}
	return &unstructured.Unstructured{Object: wholeNumbers(object).(map[string]any)}, nil
}

// Change sets fields, in the order of their paths.
func Change(object *unstructured.Unstructured, changes map[string]any) error {
	for _, p := range slices.Sorted(maps.Keys(changes)) {
		if _, err := set(object.Object, steps(p), runtime.DeepCopyJSONValue(wholeNumbers(changes[p]))); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// Get is the value of a field, nil where it is not there.
func Get(object *unstructured.Unstructured, path string) any {
	var at any = object.Object
	for _, step := range steps(path) {
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// steps splits a path; an index becomes a step of its own, and a key with dots
// stands in brackets too: metadata.labels[kueue.x-k8s.io/queue-name].
func steps(path string) []string {
	var out []string
	for path != "" {
		if rest, ok := strings.CutPrefix(path, "["); ok {
			var key string
			key, path, _ = strings.Cut(rest, "]")
			out = append(out, key)
			path = strings.TrimPrefix(path, ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return append(out, path)
		}
		out = append(out, path[:end])
		path = strings.TrimPrefix(path[end:], ".")
	}
	return out
}

// set returns the container with the value put in; a nil value removes. Objects
// on the way are created, list items are not, but for one after the last.
func set(in any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch v := in.(type) {
	case nil:
		return set(map[string]any{}, path, value)
	case map[string]any:
		if len(path) == 1 && value == nil {
			delete(v, path[0])
			return v, nil
		}
		inner, err := set(v[path[0]], path[1:], value)
		if err != nil {
			return nil, err
		}
		v[path[0]] = inner
		return v, nil
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i > len(v) {
			return nil, fmt.Errorf("no item %q", path[0])
		}
		if i == len(v) {
			v = append(v, nil)
		}
		if v[i], err = set(v[i], path[1:], value); err != nil {
			return nil, err
		}
		return v, nil
	}
	return nil, fmt.Errorf("%q is in a value that has no fields", path[0])
}

// wholeNumbers makes integers of numbers without a fraction, as decoding an
// object does.
func wholeNumbers(value any) any {
	switch v := value.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		for k := range v {
			v[k] = wholeNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	}
	return value
}
