package runner

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fill sets a Go value to a decoded JSON value: the way back of [valueOf]. v is the
// zero value of its type. Members that the type does not have are passed over.
func fill(v reflect.Value, value any) error {
	if value == nil {
		return nil
	}
	switch t := v.Type(); {
	case t == timeType:
		text, _ := value.(string)
		at, err := time.Parse(time.RFC3339, text)
		v.Addr().Interface().(*metav1.Time).Time = at.Local()
		return err
	case encodesItself(t):
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
			return fillList(v, is)
		}
	case map[string]any:
		switch v.Kind() {
		case reflect.Struct:
			return fillStruct(v, is)
		case reflect.Map:
			return fillMap(v, is)
		}
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem(), value)
	}
	return fmt.Errorf("a %T for a %s", value, v.Type())
}

func fillStruct(v reflect.Value, object map[string]any) error {
	for _, m := range membersOf(v.Type()) {
		if err := fill(v.FieldByIndex(m.index), object[m.name]); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

func fillList(v reflect.Value, list []any) error {
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, item := range list {
		if err := fill(v.Index(i), item); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func fillMap(v reflect.Value, object map[string]any) error {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(object)))
	for key, item := range object {
		value := reflect.New(v.Type().Elem()).Elem()
		if err := fill(value, item); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
	}
	return nil
}
