package hooks

import (
	"encoding/json"
	"maps"
	"slices"
)

// edit changes members of a JSON object, and copies all else as it stands.
type edit struct {
	// drop removes the member.
	drop bool
	// dropEmpty removes the member if it is an object without members afterwards.
	dropEmpty bool
	// value replaces the member, if it is not nil.
	value json.RawMessage
	// members are changes further down, by name, also in value.
	members map[string]*edit
}

// at returns the change of the member at a path, made if it is not there yet.
func (e *edit) at(path []string) *edit {
	for _, key := range path {
		next := e.members[key]
		if next == nil {
			next = &edit{}
			if e.members == nil {
				e.members = map[string]*edit{}
			}
			e.members[key] = next
		}
		// What was to be replaced is changed further down now.
		e.drop = false
		e = next
	}
	return e
}

// apply appends the object with the changes to dst. It reports whether raw is an
// object.
func (e *edit) apply(dst, raw []byte) ([]byte, bool) {
	dst = append(dst, '{')
	start := len(dst)
	missing := map[string]*edit{}
	for key, change := range e.members {
		if change.adds() {
			missing[key] = change
		}
	}
	if !eachMember(raw, func(key, value []byte) {
		change := e.members[string(key)]
		if change == nil && escaped(key) {
			change = e.members[plainKey(key)]
		}
		if change != nil {
			delete(missing, plainKey(key))
		}
		dst = change.member(dst, start, key, value)
	}) {
		return dst, false
	}
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		name, _ := json.Marshal(key)
		dst = missing[key].member(dst, start, name[1:len(name)-1], []byte("{}"))
	}
	return append(dst, '}'), true
}

// adds reports whether the change makes a member that is not there.
func (e *edit) adds() bool {
	if e.value != nil {
		return true
	}
	for _, below := range e.members {
		if below.adds() {
			return true
		}
	}
	return false
}

// member appends one member of an object that begins at start.
func (e *edit) member(dst []byte, start int, key, value []byte) []byte {
	if e != nil && e.drop {
		return dst
	}
	before := len(dst)
	if before > start {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, key...)
	dst = append(dst, '"', ':')
	if e != nil && e.value != nil {
		value = e.value
	}
	switch at := len(dst); {
	case e == nil || len(e.members) == 0:
		dst = append(dst, value...)
	default:
		var ok bool
		if dst, ok = e.apply(dst, value); !ok {
			dst = dst[:at]
			if !e.adds() {
				return append(dst, value...)
			}
			dst, _ = e.apply(dst, []byte("{}"))
		}
		if e.dropEmpty && len(dst)-at == len("{}") {
			return dst[:before]
		}
	}
	return dst
}
