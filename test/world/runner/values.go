package runner

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// valueOf is a value as encoding/json would have it, decoded: maps, lists, strings,
// booleans, int64 and float64; what the encoding leaves out is left out.
func valueOf(v reflect.Value) (any, error) { return formOf(v.Type()).value(v) }

// value is [valueOf] for a value of the form.
func (f *form) value(v reflect.Value) (any, error) {
	switch f.way {
	case asTime:
		at := v.Interface().(metav1.Time)
		if at.IsZero() {
			return nil, nil
		}
		return at.UTC().Format(time.RFC3339), nil
	case byItself:
		return encoded(v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return f.element.value(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return nil, nil
		}
		return valueOf(v.Elem())
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Struct:
		return f.object(v)
	case reflect.Slice:
		return f.list(v)
	case reflect.Map:
		return f.mapped(v)
	}
	return encoded(v)
}

// encoded encodes and decodes a value.
func encoded(v reflect.Value) (any, error) {
	if v.CanAddr() {
		v = v.Addr()
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, err
	}
	// The decoder of whole numbers wants an object.
	var wrapped map[string]any
	err = utiljson.Unmarshal(append(append([]byte(`{"v":`), text...), '}'), &wrapped)
	return wrapped["v"], err
}

// object is a struct as a decoded JSON object.
func (f *form) object(v reflect.Value) (map[string]any, error) {
	object := map[string]any{}
	for i := range f.members {
		m := &f.members[i]
		field := v.FieldByIndex(m.index)
		if m.omits(field) {
			continue
		}
		value, err := m.value(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		object[m.name] = value
	}
	return object, nil
}

func (f *form) list(v reflect.Value) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return encoded(v) // base64
	}
	list := make([]any, v.Len())
	for i := range list {
		value, err := f.element.value(v.Index(i))
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		list[i] = value
	}
	return list, nil
}

func (f *form) mapped(v reflect.Value) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	if v.Type().Key().Kind() != reflect.String || encodesItself(v.Type().Key()) {
		return encoded(v)
	}
	object := make(map[string]any, v.Len())
	for each := v.MapRange(); each.Next(); {
		value, err := f.element.value(each.Value())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", each.Key(), err)
		}
		object[each.Key().String()] = value
	}
	return object, nil
}
