package apiserver

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// JSON is the whole object as encoding/json has it. It must not be changed.
func (o *Object) JSON() []byte {
	o.encode.Do(func() {
		known := o.inherited
		size := 512
		for _, old := range known {
			size += len(old.key) + len(old.text)
		}
		o.json = make([]byte, 0, size)
		o.parts = make([]part, 0, len(o.Body))
		o.json = append(o.json, '{')
		for i, key := range slices.Sorted(maps.Keys(o.Body)) {
			if i > 0 {
				o.json = append(o.json, ',')
			}
			p := part{key: key, value: o.Body[key]}
			switch j := slices.IndexFunc(known, func(old part) bool { return old.key == key }); {
			case j < 0:
				p.text = appendJSON(nil, p.value)
			case Identical(known[j].value, p.value):
				p.text = known[j].text
			default:
				p.text = appendJSON(make([]byte, 0, len(known[j].text)+256), p.value)
			}
			o.parts = append(o.parts, p)
			o.json = append(AppendString(o.json, key), ':')
			o.json = append(o.json, p.text...)
		}
		o.json = append(o.json, '}')
		o.encoded.Store(true)
	})
	return o.json
}

// Encode encodes a JSON value as encoding/json does.
func Encode(value any) []byte { return appendJSON(nil, value) }

// part is a member of an object with its JSON. Versions of an object share those
// that did not change.
type part struct {
	key   string
	value any
	text  []byte
}

// partsOf are those of an older version, or of one before it.
func partsOf(o *Object) []part {
	switch {
	case o == nil:
		return nil
	case o.encoded.Load():
		return o.parts
	}
	return o.inherited
}

// Identical tells whether two JSON values are one: the same map or list, or equal
// otherwise.
func Identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// appendJSON appends a JSON value as encoding/json writes it.
func appendJSON(to []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(to, "null"...)
	case bool:
		return strconv.AppendBool(to, v)
	case int64:
		return strconv.AppendInt(to, v, 10)
	case string:
		return AppendString(to, v)
	case []any:
		if v == nil {
			return append(to, "null"...)
		}
		to = append(to, '[')
		for i, item := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendJSON(to, item)
		}
		return append(to, ']')
	case map[string]any:
		if v == nil {
			return append(to, "null"...)
		}
		return appendObject(to, v)
	}
	return marshal(to, value)
}

// AppendString appends a string as encoding/json writes it.
func AppendString(to []byte, text string) []byte {
	if !plain(text) {
		return marshal(to, text)
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

func marshal(to []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // JSON values
	}
	return append(to, text...)
}

// plain tells whether a string stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

func appendObject(to []byte, object map[string]any) []byte {
	members := make([]part, 0, 16) // does not leave the stack
	for key, value := range object {
		members = append(members, part{key: key, value: value})
	}
	slices.SortFunc(members, func(a, b part) int { return strings.Compare(a.key, b.key) })
	to = append(to, '{')
	for i := range members {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(AppendString(to, members[i].key), ':')
		to = appendJSON(to, members[i].value)
	}
	return append(to, '}')
}
