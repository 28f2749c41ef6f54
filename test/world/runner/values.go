package runner

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// valueOf is a value as encoding/json would have it, decoded: maps, lists, strings,
// booleans, int64 and float64; what the encoding leaves out is left out.
func valueOf(v reflect.Value) (any, error) {
	switch t := v.Type(); {
	case t == timeType:
		at := v.Interface().(metav1.Time)
		if at.IsZero() {
			return nil, nil
		}
		return at.UTC().Format(time.RFC3339), nil
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		if v.IsNil() {
			return nil, nil
		}
		return valueOf(v.Elem())
	case encodesItself(t):
		return encoded(v)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Struct:
		return objectOf(v)
	case reflect.Slice:
		return listOf(v)
	case reflect.Map:
		return mapOf(v)
	}
	return encoded(v)
}

var (
	timeType      = reflect.TypeFor[metav1.Time]()
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

	selfEncoders sync.Map // of reflect.Type to bool
)

// encodesItself tells whether a type has a JSON form of its own.
func encodesItself(t reflect.Type) bool {
	if t.PkgPath() == "" {
		return false // it has no methods
	}
	does, known := selfEncoders.Load(t)
	if !known {
		p := reflect.PointerTo(t)
		does = p.Implements(marshaler) || p.Implements(textMarshaler)
		selfEncoders.Store(t, does)
	}
	return does.(bool)
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

// objectOf is a struct as a decoded JSON object.
func objectOf(v reflect.Value) (map[string]any, error) {
	object := map[string]any{}
	for _, m := range membersOf(v.Type()) {
		field := v.FieldByIndex(m.index)
		if m.omits(field) {
			continue
		}
		value, err := valueOf(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		object[m.name] = value
	}
	return object, nil
}

func listOf(v reflect.Value) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return encoded(v) // base64
	}
	list := make([]any, v.Len())
	for i := range list {
		value, err := valueOf(v.Index(i))
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		list[i] = value
	}
	return list, nil
}

func mapOf(v reflect.Value) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	if v.Type().Key().Kind() != reflect.String || encodesItself(v.Type().Key()) {
		return encoded(v)
	}
	object := make(map[string]any, v.Len())
	for each := v.MapRange(); each.Next(); {
		value, err := valueOf(each.Value())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", each.Key(), err)
		}
		object[each.Key().String()] = value
	}
	return object, nil
}

// member is a field of a struct that its JSON has.
type member struct {
	index               []int
	name                string
	omitEmpty, omitZero bool
}

func (m *member) omits(field reflect.Value) bool {
	if m.omitZero && field.IsZero() {
		return true
	}
	if !m.omitEmpty {
		return false
	}
	switch field.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return field.Len() == 0
	case reflect.Struct:
		return false
	}
	return field.IsZero()
}

var members sync.Map // of reflect.Type to []member

// membersOf are the fields of a struct, those of embedded ones included.
func membersOf(t reflect.Type) []member {
	if known, ok := members.Load(t); ok {
		return known.([]member)
	}
	var all []member
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			for _, m := range membersOf(field.Type) {
				m.index = append([]int{i}, m.index...)
				all = append(all, m)
			}
		case field.IsExported():
			if name == "" {
				name = field.Name
			}
			all = append(all, member{[]int{i}, name, strings.Contains(options, "omitempty"), strings.Contains(options, "omitzero")})
		}
	}
	members.Store(t, all)
	return all
}
