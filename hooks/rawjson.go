package hooks

import (
	"bytes"
	"encoding/json"
)

// The functions here pass over JSON that was checked before: by package contract,
// by an encoder, or by a decoder. They find where values begin and end without
// looking into them, several times as fast as a decoder. What is not JSON makes
// them fail or find something else, never read beyond the text.

// eachMember calls f for each member of an object with its name, between the
// quotes as written, and its value, until f returns false. It reports whether raw
// is an object and was walked to its end.
func eachMember(raw []byte, f func(key, value []byte) bool) bool {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return false
	}
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return true
	}
	for {
		if i >= len(raw) || raw[i] != '"' {
			return false
		}
		end := skipString(raw, i)
		if end < 0 {
			return false
		}
		key := raw[i+1 : end-1]
		i = skipSpace(raw, end)
		if i >= len(raw) || raw[i] != ':' {
			return false
		}
		i = skipSpace(raw, i+1)
		end = skipValue(raw, i)
		if end < 0 {
			return false
		}
		if !f(key, raw[i:end:end]) {
			return false
		}
		i = skipSpace(raw, end)
		if i >= len(raw) {
			return false
		}
		switch raw[i] {
		case ',':
			i = skipSpace(raw, i+1)
		case '}':
			return true
		default:
			return false
		}
	}
}

// eachElement calls f for each element of a list until f returns false. It reports
// whether raw is a list and was walked to its end.
func eachElement(raw []byte, f func(value []byte) bool) bool {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return false
	}
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == ']' {
		return true
	}
	for {
		end := skipValue(raw, i)
		if end < 0 || !f(raw[i:end:end]) {
			return false
		}
		i = skipSpace(raw, end)
		if i >= len(raw) {
			return false
		}
		switch raw[i] {
		case ',':
			i = skipSpace(raw, i+1)
		case ']':
			return true
		default:
			return false
		}
	}
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

// plainKey is the name of a member without escapes.
func plainKey(key []byte) string {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key)
	}
	var plain string
	quoted := append(append([]byte{'"'}, key...), '"')
	if json.Unmarshal(quoted, &plain) != nil {
		return string(key)
	}
	return plain
}
