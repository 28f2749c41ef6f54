package plan

import (
	"maps"
	"math"
	"reflect"
	"slices"
)

// difference is what separates an observed object from the desired one.
type difference struct {
	// patch makes the desired out of the observed, as a JSON merge patch.
	patch map[string]any
	// was holds what is observed at the places that patch changes.
	was map[string]any
}

func (d difference) empty() bool { return len(d.patch) == 0 }

// fingerprint tells differences apart; that of an empty one is the zero value. It
// covers both sides, so that a value which drifts away from what is known to be
// unreachable shows as a new difference.
func (d difference) fingerprint() fingerprint {
	if d.empty() {
		return fingerprint{}
	}
	return fingerprintOf([]any{d.patch, d.was})
}

// compare returns the difference between two values of the same object. If
// complete, what desired lacks is removed; else it is left alone. Null and absent
// are the same, as they are to the API server. A list counts as one value.
func compare(was, desired map[string]any, complete bool) difference {
	d := inside(was, desired, complete)
	if d.patch == nil {
		return difference{map[string]any{}, map[string]any{}}
	}
	return d
}

// inside is compare, but for maps that are nil where there is no difference.
func inside(was, desired map[string]any, complete bool) difference {
	d := difference{}
	if sameMap(was, desired) {
		return d
	}
	change := func(key string, patch, have any) {
		if d.patch == nil {
			d = difference{map[string]any{}, map[string]any{}}
		}
		d.patch[key], d.was[key] = patch, have
	}
	for key, want := range desired {
		if want == nil {
			continue
		}
		have, exists := was[key]
		haveMap, ok1 := have.(map[string]any)
		wantMap, ok2 := want.(map[string]any)
		if ok1 && ok2 {
			if inner := inside(haveMap, wantMap, complete); !inner.empty() {
				change(key, inner.patch, inner.was)
			}
			continue
		}
		if exists && equal(have, want) {
			continue
		}
		change(key, withoutNulls(want), have)
	}
	if complete {
		for key, have := range was {
			if have != nil && desired[key] == nil {
				change(key, nil, have)
			}
		}
	}
	return d
}

// equal compares decoded JSON by meaning: 1 and 1.0 are one number, and a null
// member of an object is as good as none.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return false
		}
		if sameMap(a, b) {
			return true
		}
		for key, value := range a {
			if value == nil {
				if b[key] != nil {
					return false
				}
				continue
			}
			other, ok := b[key]
			if !ok || !equal(value, other) {
				return false
			}
		}
		for key, value := range b {
			if value != nil && a[key] == nil {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		if len(a) > 0 && &a[0] == &b[0] {
			return true
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case int64:
		switch b := b.(type) {
		case int64:
			return a == b
		case float64:
			return sameNumber(a, b)
		}
		return false
	case float64:
		switch b := b.(type) {
		case float64:
			return a == b
		case int64:
			return sameNumber(b, a)
		}
		return false
	default:
		return a == b
	}
}

// sameMap tells whether two maps are one and the same, so that there is no need to
// look into them.
func sameMap(a, b map[string]any) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

func sameNumber(i int64, f float64) bool {
	return f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64 && int64(f) == i
}

// withoutNulls drops the null members of objects, which in a merge patch would
// mean removal. A value that has none is returned as it is.
func withoutNulls(value any) any {
	if !hasNulls(value) {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for key, member := range v {
			if member != nil {
				kept[key] = withoutNulls(member)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, element := range v {
			kept[i] = withoutNulls(element)
		}
		return kept
	default:
		return value
	}
}

// hasNulls tells whether an object has a null member, however deep.
func hasNulls(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			if member == nil || hasNulls(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasNulls)
	}
	return false
}

// compareChild compares a child with what the hook returned, in the parts that a
// hook decides: all but status, and of the metadata labels and annotations.
func compareChild(o *Object, desired map[string]any, complete bool) difference {
	return compare(decidable(o.Object), decidable(desired), complete)
}

func compareStatus(parent *Object, status map[string]any) difference {
	was, _ := parent.Object["status"].(map[string]any)
	d := inside(was, status, true)
	if d.empty() {
		return d
	}
	return difference{map[string]any{"status": d.patch}, map[string]any{"status": d.was}}
}

func compareChildStatus(o *Object, d *Desired) difference {
	was, _ := o.Object["status"].(map[string]any)
	return compare(orEmpty(was), d.Status, false)
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// paths names the leaves of a patch, for messages.
func paths(patch map[string]any, prefix string) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		if inner, ok := patch[key].(map[string]any); ok && len(inner) > 0 {
			list = append(list, paths(inner, prefix+key+".")...)
		} else {
			list = append(list, prefix+key)
		}
	}
	return list
}

func decidable(object map[string]any) map[string]any {
	parts := make(map[string]any, len(object))
	for key, value := range object {
		switch key {
		case "apiVersion", "kind", "status", "metadata":
		default:
			parts[key] = value
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	decided := map[string]any{}
	for _, key := range []string{"labels", "annotations"} {
		// Absent and empty are one: the API server stores no empty ones.
		if value, ok := metadata[key].(map[string]any); ok && len(value) > 0 {
			decided[key] = value
		} else {
			decided[key] = map[string]any{}
		}
	}
	parts["metadata"] = decided
	return parts
}
