package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/compose"
)

// decode decodes one object into the fields that a Go type has, as encoding/json
// does, but that names are case-sensitive, as everywhere in the API machinery.
// What the type does not have is passed over: of a Job, for example, a twentieth
// is looked at.
//
// raw must be JSON that was checked before. Conditions alias it.
//
// Why not a library: those at hand check the whole text first and then decode it,
// which for the objects of one request took longer than to decide about them. See
// the benchmarks.
func decode(raw json.RawMessage, into any) error {
	v := reflect.ValueOf(into).Elem()
	_, err := decoderOf(v.Type())(raw, skipSpace(raw, 0), v)
	var wrong *typeError
	if errors.As(err, &wrong) && wrong.field == "" {
		return fmt.Errorf("want %s, got %s", wrong.want, wrong.got)
	}
	return err
}

// decoder decodes the value at i into v, and returns where it ends.
type decoder func(raw []byte, i int, v reflect.Value) (int, error)

// errText is a text that was said to be JSON and is not.
var errText = errors.New("not JSON")

// typeError is a value of another type than the field.
type typeError struct{ field, want, got string }

func (e *typeError) Error() string { return e.field + ": want " + e.want + ", got " + e.got }

// below puts an error below a field.
func below(field string, err error) error {
	var wrong *typeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("%s: %w", field, err)
	}
	switch {
	case wrong.field == "":
		return &typeError{field, wrong.want, wrong.got}
	case strings.HasPrefix(wrong.field, "["):
		return &typeError{field + wrong.field, wrong.want, wrong.got}
	default:
		return &typeError{field + "." + wrong.field, wrong.want, wrong.got}
	}
}

var decoders sync.Map // of reflect.Type to decoder

// decoderOf returns the decoder of a type.
func decoderOf(t reflect.Type) decoder {
	if known, ok := decoders.Load(t); ok {
		return known.(decoder)
	}
	// For types that contain themselves: whoever meets t below waits for it.
	var ready sync.WaitGroup
	ready.Add(1)
	var made decoder
	known, loaded := decoders.LoadOrStore(t, decoder(func(raw []byte, i int, v reflect.Value) (int, error) {
		ready.Wait()
		return made(raw, i, v)
	}))
	if loaded {
		return known.(decoder)
	}
	made = newDecoder(t)
	ready.Done()
	decoders.Store(t, made)
	return made
}

var (
	conditionType = reflect.TypeFor[compose.Condition]()
	timeType      = reflect.TypeFor[metav1.Time]()
	rawType       = reflect.TypeFor[json.RawMessage]()
	stringsType   = reflect.TypeFor[map[string]string]()
	unmarshaler   = reflect.TypeFor[json.Unmarshaler]()
)

func newDecoder(t reflect.Type) decoder {
	switch {
	case t == conditionType:
		return conditionDecoder()
	case t == timeType:
		return scalar(decodeTime)
	case t == stringsType:
		return nullable(decodeStrings)
	case t == rawType || reflect.PointerTo(t).Implements(unmarshaler):
		return scalar(decodeByItself)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return pointerDecoder(t)
	case reflect.Struct:
		return structDecoder(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return scalar(decodeByItself) // base64
		}
		return sliceDecoder(t)
	case reflect.Map:
		if t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textUnmarshaler) {
			return scalar(decodeByItself)
		}
		return mapDecoder(t)
	case reflect.String:
		return scalar(decodeString)
	case reflect.Bool:
		return scalar(decodeBool)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return scalar(decodeInt)
	default:
		return scalar(decodeByItself)
	}
}

var textUnmarshaler = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()

// decodeByItself leaves it to the type, or to encoding/json.
func decodeByItself(raw []byte, v reflect.Value) error {
	err := json.Unmarshal(raw, v.Addr().Interface())
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return &typeError{wrong.Field, wrong.Type.String(), wrong.Value}
	}
	return err
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// mismatch is the error of a value that is not what v wants.
func mismatch(raw []byte, v reflect.Value) error {
	return &typeError{want: v.Type().String(), got: kindOf(raw)}
}

// kindOf names the type of a value.
func kindOf(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	default:
		return "number"
	}
}

func decodeString(raw []byte, v reflect.Value) error {
	if isNull(raw) {
		return nil
	}
	text, ok := stringOf(raw)
	if !ok {
		return mismatch(raw, v)
	}
	v.SetString(text)
	return nil
}

// stringOf returns the text of a string.
func stringOf(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

func decodeBool(raw []byte, v reflect.Value) error {
	switch string(raw) {
	case "true":
		v.SetBool(true)
	case "false":
		v.SetBool(false)
	case "null":
	default:
		return mismatch(raw, v)
	}
	return nil
}

func decodeInt(raw []byte, v reflect.Value) error {
	if isNull(raw) {
		return nil
	}
	n, err := strconv.ParseInt(string(raw), 10, v.Type().Bits())
	if err != nil {
		if kindOf(raw) == "number" {
			return &typeError{want: v.Type().String(), got: "number " + string(raw)}
		}
		return mismatch(raw, v)
	}
	v.SetInt(n)
	return nil
}

// decodeTime does what metav1.Time does, without a decoder of its own.
func decodeTime(raw []byte, v reflect.Value) error {
	if isNull(raw) {
		v.SetZero()
		return nil
	}
	text, ok := stringOf(raw)
	if !ok {
		return &typeError{want: "time", got: kindOf(raw)}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return &typeError{want: "time", got: strconv.Quote(text)}
	}
	v.Addr().Interface().(*metav1.Time).Time = t.Local()
	return nil
}

// scalar makes a decoder of a function that needs the bytes of the value alone.
func scalar(f func(value []byte, v reflect.Value) error) decoder {
	return func(raw []byte, i int, v reflect.Value) (int, error) {
		end := skipValue(raw, i)
		if end < 0 {
			return -1, errText
		}
		return end, f(raw[i:end:end], v)
	}
}

// nullable makes a decoder that takes null for the zero value.
func nullable(f decoder) decoder {
	return func(raw []byte, i int, v reflect.Value) (int, error) {
		if end := i + len("null"); end <= len(raw) && isNull(raw[i:end]) {
			v.SetZero()
			return end, nil
		}
		return f(raw, i, v)
	}
}

// ended is what a decoder returns that walked to end and met err on the way.
func ended(raw []byte, i, end int, v reflect.Value, err error) (int, error) {
	if err == nil && end < 0 {
		if skipped := skipValue(raw, i); skipped < 0 {
			err = errText
		} else {
			err = mismatch(raw[i:skipped], v)
		}
	}
	return end, err
}

func pointerDecoder(t reflect.Type) decoder {
	element := decoderOf(t.Elem())
	return nullable(func(raw []byte, i int, v reflect.Value) (int, error) {
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		return element(raw, i, v.Elem())
	})
}

func sliceDecoder(t reflect.Type) decoder {
	element := decoderOf(t.Elem())
	// Lists of large things, such as containers, are short.
	capacity := 4
	if t.Elem().Size() > 256 {
		capacity = 1
	}
	return nullable(func(raw []byte, i int, v reflect.Value) (int, error) {
		v.Set(reflect.MakeSlice(t, 0, capacity))
		n := 0
		var err error
		end := walkList(raw, i, func(at int) int {
			if n == v.Cap() {
				v.Grow(1)
			}
			v.SetLen(n + 1)
			if at, err = element(raw, at, v.Index(n)); err != nil {
				err = below("["+strconv.Itoa(n)+"]", err)
				return -1
			}
			n++
			return at
		})
		return ended(raw, i, end, v, err)
	})
}

func mapDecoder(t reflect.Type) decoder {
	element := decoderOf(t.Elem())
	return nullable(func(raw []byte, i int, v reflect.Value) (int, error) {
		if v.IsNil() {
			v.Set(reflect.MakeMap(t))
		}
		value := reflect.New(t.Elem()).Elem()
		var err error
		end := walkObject(raw, i, func(key []byte, at int) int {
			value.SetZero()
			name := plainKey(key)
			if at, err = element(raw, at, value); err != nil {
				err = below(name, err)
				return -1
			}
			v.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), value)
			return at
		})
		return ended(raw, i, end, v, err)
	})
}

// decodeStrings is mapDecoder for labels and annotations, without reflection.
func decodeStrings(raw []byte, i int, v reflect.Value) (int, error) {
	into := v.Addr().Interface().(*map[string]string)
	if *into == nil {
		*into = map[string]string{}
	}
	var err error
	end := walkObject(raw, i, func(key []byte, at int) int {
		end := skipValue(raw, at)
		if end < 0 {
			return -1
		}
		text, ok := stringOf(raw[at:end])
		if !ok && !isNull(raw[at:end]) {
			err = &typeError{plainKey(key), "string", kindOf(raw[at:end])}
			return -1
		}
		(*into)[plainKey(key)] = text
		return end
	})
	return ended(raw, i, end, v, err)
}

// member is a field of a struct.
type member struct {
	index  []int
	decode decoder
}

func structDecoder(t reflect.Type) decoder {
	members := map[string]member{}
	collect(t, nil, members)
	return func(raw []byte, i int, v reflect.Value) (int, error) {
		if end := i + len("null"); end <= len(raw) && isNull(raw[i:end]) {
			return end, nil
		}
		var err error
		end := walkObject(raw, i, func(key []byte, at int) int {
			m, ok := members[string(key)] // no copy of the key
			if !ok && escaped(key) {
				m, ok = members[plainKey(key)]
			}
			if !ok {
				return skipValue(raw, at)
			}
			if at, err = m.decode(raw, at, v.FieldByIndex(m.index)); err != nil {
				err = below(string(key), err)
				return -1
			}
			return at
		})
		return ended(raw, i, end, v, err)
	}
}

// collect finds the fields of a struct by their names in JSON, those of embedded
// structs included; the outer of two of one name counts.
func collect(t reflect.Type, index []int, into map[string]member) {
	var embedded []reflect.StructField
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			embedded = append(embedded, field)
		case !field.IsExported():
		default:
			if name == "" {
				name = field.Name
			}
			if _, taken := into[name]; !taken {
				into[name] = member{append(append([]int(nil), index...), i), decoderOf(field.Type)}
			}
		}
	}
	for _, field := range embedded {
		collect(field.Type, append(append([]int(nil), index...), field.Index...), into)
	}
}

// conditionDecoder keeps the raw condition beside the known fields, as the type
// does by itself.
func conditionDecoder() decoder {
	fields := structDecoder(conditionType)
	return func(raw []byte, i int, v reflect.Value) (int, error) {
		end, err := fields(raw, i, v)
		if err == nil {
			v.Addr().Interface().(*compose.Condition).Raw = raw[i:end:end]
		}
		return end, err
	}
}
