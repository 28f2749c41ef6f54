package runner

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/test/world/apiserver"
)

// refill sets a Go value of the form to a decoded JSON value: the way back of [valueOf].
// v is the zero value of its type. Members that the type does not have are passed over.
// was is what an older value, before, was decoded to: what has not changed since is
// shared with it. Without one, was is the zero reflect.Value.
func (f *form) refill(v reflect.Value, value any, was reflect.Value, before any) error {
	if was.IsValid() && apiserver.Identical(value, before) {
		v.Set(was)
		return nil
	}
	if value == nil {
		return nil
	}
	switch f.way {
	case asTime:
		text, _ := value.(string)
		at, err := time.Parse(time.RFC3339, text)
		v.Addr().Interface().(*metav1.Time).Time = at.Local()
		return err
	case asStrings:
		return fillStrings(v.Addr().Interface().(*map[string]string), value)
	case asObserved:
		v.Addr().Interface().(*compose.Condition).Raw = apiserver.Encode(value)
	case byItself:
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, v.Addr().Interface())
	}
	switch is := value.(type) {
	case string:
		if v.Kind() == reflect.String {
			v.SetString(is)
			return nil
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(is)
			return nil
		}
	case int64:
		if v.CanInt() && !v.OverflowInt(is) {
			v.SetInt(is)
			return nil
		}
	case []any:
		if v.Kind() == reflect.Slice {
			return f.refillList(v, is, was, before)
		}
	case map[string]any:
		switch v.Kind() {
		case reflect.Struct:
			return f.refillStruct(v, is, was, before)
		case reflect.Map:
			return f.fillMap(v, is)
		}
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		if was.IsValid() {
			was = was.Elem()
		}
		return f.element.refill(v.Elem(), value, was, before)
	}
	return fmt.Errorf("a %T for a %s", value, v.Type())
}

func (f *form) refillStruct(v reflect.Value, object map[string]any, was reflect.Value, before any) error {
	old, _ := before.(map[string]any)
	for i := range f.members {
		m := &f.members[i]
		var field reflect.Value
		if was.IsValid() {
			field = was.FieldByIndex(m.index)
		}
		if err := m.refill(v.FieldByIndex(m.index), object[m.name], field, old[m.name]); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

func (f *form) refillList(v reflect.Value, list []any, was reflect.Value, before any) error {
	old, _ := before.([]any)
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, item := range list {
		var element reflect.Value
		var itemBefore any
		if i < len(old) && was.IsValid() {
			element, itemBefore = was.Index(i), old[i]
		}
		if err := f.element.refill(v.Index(i), item, element, itemBefore); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

// fillStrings is fillMap for labels and annotations.
func fillStrings(into *map[string]string, value any) error {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("a %T for strings", value)
	}
	*into = make(map[string]string, len(object))
	for key, item := range object {
		text, ok := item.(string)
		if !ok && item != nil {
			return fmt.Errorf("%s: a %T for a string", key, item)
		}
		(*into)[key] = text
	}
	return nil
}

func (f *form) fillMap(v reflect.Value, object map[string]any) error {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(object)))
	for key, item := range object {
		value := reflect.New(v.Type().Elem()).Elem()
		if err := f.element.refill(value, item, reflect.Value{}, nil); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
	}
	return nil
}
