package scenario

import (
	"fmt"
	"maps"
	"slices"
)

// Merge applies a JSON merge patch (RFC 7386), with one addition: lists named
// conditions are merged by the type of their items, and an item with
// "absent: true" removes the condition.
func Merge(base, patch map[string]any) map[string]any {
	merged := maps.Clone(base)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			below, _ := merged[key].(map[string]any)
			merged[key] = Merge(below, v)
		case []any:
			before, isList := merged[key].([]any)
			if key == "conditions" && isList {
				merged[key] = mergeConditions(before, v)
			} else {
				merged[key] = v
			}
		default:
			merged[key] = v
		}
	}
	return merged
}

func mergeConditions(base, patch []any) []any {
	merged := slices.Clone(base)
	for _, item := range patch {
		condition, _ := item.(map[string]any)
		i := slices.IndexFunc(merged, func(other any) bool {
			o, ok := other.(map[string]any)
			return ok && o["type"] == condition["type"]
		})
		switch {
		case condition["absent"] == true && i >= 0:
			merged = slices.Delete(merged, i, i+1)
		case condition["absent"] == true:
		case i >= 0:
			merged[i] = Merge(merged[i].(map[string]any), condition)
		default:
			merged = append(merged, item)
		}
	}
	return merged
}

// mergeObjects merges lists of objects by kind and name.
func mergeObjects(base, patch []map[string]any) []map[string]any {
	merged := slices.Clone(base)
	for _, object := range patch {
		i := slices.IndexFunc(merged, func(other map[string]any) bool { return id(other) == id(object) })
		if i >= 0 {
			merged[i] = Merge(merged[i], object)
		} else {
			merged = append(merged, Merge(nil, object))
		}
	}
	return merged
}

// id is how cases name an object: Kind/name.
func id(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	return fmt.Sprintf("%v/%v", object["kind"], metadata["name"])
}

// Difference is the JSON merge patch that makes a into b.
func Difference(a, b map[string]any) map[string]any {
	patch := map[string]any{}
	for key, after := range b {
		before, ok := a[key]
		below, isMap := before.(map[string]any)
		if m, both := after.(map[string]any); isMap && both {
			if d := Difference(below, m); len(d) > 0 {
				patch[key] = d
			}
			continue
		}
		if !ok || !equal(before, after) {
			patch[key] = after
		}
	}
	for key := range a {
		if _, ok := b[key]; !ok {
			patch[key] = nil
		}
	}
	return patch
}
