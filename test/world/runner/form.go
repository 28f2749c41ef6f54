package runner

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/compose"
)

// form is how the values of a type are in JSON.
type form struct {
	way
	// members of a struct, those of embedded ones included.
	members []member
	// element is the form of what a pointer points to, or a slice or map has.
	element *form
}

// way is one of those in which values are encoded.
type way int

const (
	// byKind: objects, lists, strings, booleans and numbers.
	byKind way = iota
	// byItself: the type has a JSON form of its own.
	byItself
	asTime
	asStrings
	asCondition
	asObserved
)

// ways of some types, with which there is a shorter way to do things.
var ways = map[reflect.Type]way{
	reflect.TypeFor[metav1.Time]():       asTime,
	reflect.TypeFor[map[string]string](): asStrings,
	reflect.TypeFor[metav1.Condition]():  asCondition,
	reflect.TypeFor[compose.Condition](): asObserved,
}

// member is a field of a struct that its JSON has.
type member struct {
	index               []int
	name                string
	omitEmpty, omitZero bool
	*form
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

// forms are those that were found out, by type.
var forms = struct {
	sync.RWMutex
	of map[reflect.Type]*form
}{of: map[reflect.Type]*form{}}

// formOf returns the form of a type.
func formOf(t reflect.Type) *form {
	forms.RLock()
	f := forms.of[t]
	forms.RUnlock()
	if f == nil {
		forms.Lock()
		defer forms.Unlock()
		f = findForm(t)
	}
	return f
}

// findForm is formOf for who holds the lock: nobody sees a form before all that it
// leads to is there.
func findForm(t reflect.Type) *form {
	if f := forms.of[t]; f != nil {
		return f
	}
	f := &form{way: ways[t]}
	forms.of[t] = f
	if f.way == byKind && encodesItself(t) {
		f.way = byItself
		return f
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		f.element = findForm(t.Elem())
	case reflect.Struct:
		if f.way != asTime {
			f.members = membersOf(t)
		}
	}
	return f
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// encodesItself tells whether a type has a JSON form of its own.
func encodesItself(t reflect.Type) bool {
	if t.PkgPath() == "" {
		return false // it has no methods
	}
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(textMarshaler)
}

// membersOf are the fields of a struct, those of embedded ones included.
func membersOf(t reflect.Type) (all []member) {
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
			all = append(all, member{[]int{i}, name, strings.Contains(options, "omitempty"), strings.Contains(options, "omitzero"), findForm(field.Type)})
		}
	}
	return all
}
