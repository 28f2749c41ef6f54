package runner

import (
	"maps"
	"reflect"

	"rtj.dev/rtj/api/v1beta1"
)

// statusOf is the decided status as decoded JSON. What is as it was observed is
// shared with what was observed: it is rtj that wrote it, in the same form. same
// tells that all is.
func statusOf(observed any, was, next *v1beta1.ResumableTrainingJobStatus) (status map[string]any, same bool, err error) {
	if next == nil {
		return nil, false, nil
	}
	before, _ := observed.(map[string]any)
	if before == nil {
		before = map[string]any{}
	}
	v := reflect.ValueOf(next).Elem()
	return formOf(v.Type()).objectUpon(v, reflect.ValueOf(was).Elem(), before)
}

// valueUpon is [valueOf] for a value that is mostly what an older one, was, of which
// the form is before. What is as it was is shared with it; same tells that all is.
func (f *form) valueUpon(v, was reflect.Value, before any) (value any, same bool, err error) {
	if f.alike(v, was) {
		return before, true, nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !was.IsNil() {
			return f.element.valueUpon(v.Elem(), was.Elem(), before)
		}
	case reflect.Struct:
		if before, ok := before.(map[string]any); ok && f.members != nil {
			return f.objectUpon(v, was, before)
		}
	case reflect.Slice:
		if before, ok := before.([]any); ok && len(before) == was.Len() && !v.IsNil() {
			return f.listUpon(v, was, before)
		}
	}
	value, err = f.value(v)
	return value, false, err
}

func (f *form) objectUpon(v, was reflect.Value, before map[string]any) (object map[string]any, same bool, err error) {
	object, same = before, true
	change := func() {
		if same {
			object, same = maps.Clone(before), false
		}
	}
	for i := range f.members {
		m := &f.members[i]
		field := v.FieldByIndex(m.index)
		old, exists := before[m.name]
		if m.omits(field) {
			if exists {
				change()
				delete(object, m.name)
			}
			continue
		}
		var value any
		alike := false
		if exists {
			value, alike, err = m.valueUpon(field, was.FieldByIndex(m.index), old)
		} else {
			value, err = m.value(field)
		}
		if err != nil {
			return nil, false, err
		}
		if !alike {
			change()
			object[m.name] = value
		}
	}
	return object, same, nil
}

func (f *form) listUpon(v, was reflect.Value, before []any) (list []any, same bool, err error) {
	list, same = before, v.Len() == len(before)
	if !same {
		list = make([]any, v.Len())
	}
	for i := range v.Len() {
		var value any
		alike := false
		if i < len(before) {
			value, alike, err = f.element.valueUpon(v.Index(i), was.Index(i), before[i])
		} else {
			value, err = f.element.value(v.Index(i))
		}
		if err != nil {
			return nil, false, err
		}
		if same && !alike {
			list, same = append([]any(nil), before...), false
		}
		if !same {
			list[i] = value
		}
	}
	return list, same, nil
}
