package apicases

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Change sets fields, in the order of their paths.
func Change(object *unstructured.Unstructured, changes map[string]any) error {
	for _, p := range slices.Sorted(maps.Keys(changes)) {
		if _, err := set(object.Object, steps(p), runtime.DeepCopyJSONValue(wholeNumbers(changes[p]))); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// get is the value of a field, nil where it is not there.
func get(object *unstructured.Unstructured, path string) any {
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
