package hooks

import (
	"bytes"
	"encoding/json"
)

// The functions here pass over JSON that was checked before: by package contract,
// by an encoder, or by a decoder. They find where values begin and end without
// looking into them, several times as fast as a decoder. What is not JSON makes
// them fail or find something else, never read beyond the text.

// walkObject passes over the object at i. f is called for each member with its
// name, between the quotes as written, and the place of its value, and returns
// where the value ends. The end of the object is returned; it is negative if there
// is none at i, or once f returns a negative number.
func walkObject(raw []byte, i int, f func(key []byte, at int) int) int {
	if i >= len(raw) || raw[i] != '{' {
		return -1
	}
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(raw) || raw[i] != '"' {
			return -1
		}
		end := skipString(raw, i)
		if end < 0 {
			return -1
		}
		key := raw[i+1 : end-1]
		i = skipSpace(raw, end)
		if i >= len(raw) || raw[i] != ':' {
			return -1
		}
		if i = f(key, skipSpace(raw, i+1)); i < 0 {
			return -1
		}
		i = skipSpace(raw, i)
		if i >= len(raw) {
			return -1
		}
		switch raw[i] {
		case ',':
			i = skipSpace(raw, i+1)
		case '}':
			return i + 1
		default:
			return -1
		}
	}
}

// walkList passes over the list at i, as walkObject does.
func walkList(raw []byte, i int, f func(at int) int) int {
	if i >= len(raw) || raw[i] != '[' {
		return -1
	}
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == ']' {
		return i + 1
	}
	for {
		if i = f(i); i < 0 {
			return -1
		}
		i = skipSpace(raw, i)
		if i >= len(raw) {
			return -1
		}
		switch raw[i] {
		case ',':
			i = skipSpace(raw, i+1)
		case ']':
			return i + 1
		default:
			return -1
		}
	}
}

// eachMember calls f for each member of an object with its name, between the
// quotes as written, and its value. It reports whether raw is an object.
func eachMember(raw []byte, f func(key, value []byte)) bool {
	return walkObject(raw, skipSpace(raw, 0), func(key []byte, at int) int {
		end := skipValue(raw, at)
		if end >= 0 {
			f(key, raw[at:end:end])
		}
		return end
	}) >= 0
}

// skipValue returns the end of the value at i, or -1.
func skipValue(raw []byte, i int) int {
	if i >= len(raw) {
		return -1
	}
	switch raw[i] {
	case '"':
		return skipString(raw, i)
	case '{', '[':
		return skipNested(raw, i)
	}
	start := i
	for ; i < len(raw); i++ {
		switch raw[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			if i == start {
				return -1
			}
			return i
		}
	}
	return i
}

// skipNested returns the end of the object or list at i, or -1.
func skipNested(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			if i = skipString(raw, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// skipString returns the end of the string at i, or -1.
func skipString(raw []byte, i int) int {
	for end := i + 1; ; {
		n := bytes.IndexByte(raw[end:], '"')
		if n < 0 {
			return -1
		}
		end += n + 1
		escapes := 0
		for at := end - 2; at > i && raw[at] == '\\'; at-- {
			escapes++
		}
		if escapes%2 == 0 {
			return end
		}
	}
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

func escaped(key []byte) bool { return bytes.IndexByte(key, '\\') >= 0 }

// plainKey is the name of a member without escapes.
func plainKey(key []byte) string {
	if !escaped(key) {
		return string(key)
	}
	var plain string
	quoted := append(append([]byte{'"'}, key...), '"')
	if json.Unmarshal(quoted, &plain) != nil {
		return string(key)
	}
	return plain
}
