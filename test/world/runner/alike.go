package runner

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// alike tells whether two values of the form have the same JSON, as far as it looks: it
// is [reflect.DeepEqual] for what they show in it, where none contains itself, and times
// are the same in any zone. Both are addressable.
func (f *form) alike(a, b reflect.Value) bool {
	switch f.way {
	case asTime:
		return a.Addr().Interface().(*metav1.Time).Equal(b.Addr().Interface().(*metav1.Time))
	case asCondition:
		return *a.Addr().Interface().(*metav1.Condition) == *b.Addr().Interface().(*metav1.Condition)
	case asStrings:
		x, y := *a.Addr().Interface().(*map[string]string), *b.Addr().Interface().(*map[string]string)
		return (x == nil) == (y == nil) && maps.Equal(x, y)
	case byItself:
		return reflect.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
	}
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Float32, reflect.Float64:
		return a.Float() == b.Float()
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.Pointer() == b.Pointer() {
			return a.IsNil() == b.IsNil()
		}
		return f.element.alike(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !f.element.alike(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range f.members {
			m := &f.members[i]
			if !m.alike(a.FieldByIndex(m.index), b.FieldByIndex(m.index)) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
}
