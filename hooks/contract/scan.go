package contract

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxDepth bounds how deep a message may nest. Kubernetes objects stay below a
// tenth of it; the bound keeps hostile input from growing the stack.
const maxDepth = 1000

// scanner walks over JSON text once. It checks the grammar of RFC 8259 and finds
// where values begin and end; it builds nothing.
//
// Why not encoding/json: it scans a message twice before a RawMessage comes out,
// and again for each RawMessage decoded, which for a request of 54 KB cost more
// than the decision made from it. See the benchmarks of this package.
type scanner struct {
	data  []byte
	pos   int
	depth int
	// serverSide is whether the object that was read last was written by
	// server-side apply.
	serverSide bool
}

// Error says what is wrong with a message, and where.
type Error struct {
	// Field is the place in the message, such as children["Pod.v1"]["a/b"], or
	// empty for the message as a whole.
	Field string
	// Reason is what is wrong there.
	Reason string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

func fieldError(field, format string, args ...any) *Error {
	return &Error{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// in puts an error below field, keeping the place that it already names.
func in(field string, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	switch {
	case e.Field == "":
		return &Error{Field: field, Reason: e.Reason}
	case strings.HasPrefix(e.Field, "["):
		return &Error{Field: field + e.Field, Reason: e.Reason}
	default:
		return &Error{Field: field + "." + e.Field, Reason: e.Reason}
	}
}

func index(key string) string { return "[" + strconv.Quote(key) + "]" }

func (s *scanner) syntax(want string) *Error {
	if s.pos >= len(s.data) {
		return fieldError("", "not JSON: ends where %s is expected", want)
	}
	return fieldError("", "not JSON: %q at offset %d where %s is expected", s.data[s.pos], s.pos, want)
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, or 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos >= len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.data) {
		return fieldError("", "data after the end of the message, at offset %d", s.pos)
	}
	return nil
}

func (s *scanner) enter() error {
	s.depth++
	if s.depth > maxDepth {
		return fieldError("", "nested deeper than %d", maxDepth)
	}
	s.pos++
	return nil
}

// walk passes over the object at the scanner's position. member is called with
// the scanner at each value and must consume it; key is the name as written,
// between its quotes, plain if it needs no decoding, and start is where the
// member begins.
func (s *scanner) walk(member func(key []byte, plain bool, start int) error) error {
	if s.peek() != '{' {
		return fieldError("", "want an object, got %s", s.describe())
	}
	if err := s.enter(); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.syntax("a field name")
		}
		start := s.pos
		plain, err := s.skipString()
		if err != nil {
			return err
		}
		key := s.data[start+1 : s.pos-1]
		if s.peek() != ':' {
			return s.syntax("':'")
		}
		s.pos++
		if err := member(key, plain, start); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			s.depth--
			return nil
		default:
			return s.syntax("',' or '}'")
		}
	}
}

// names is walk for those who want the names decoded. again says that the name
// has occurred before.
func (s *scanner) names(member func(key string, again bool) error) error {
	seen := map[string]bool{}
	return s.walk(func(name []byte, plain bool, start int) error {
		key := string(name)
		if !plain {
			if err := json.Unmarshal(s.data[start:start+len(name)+2], &key); err != nil {
				return fieldError("", "not JSON: %v", err)
			}
		}
		again := seen[key]
		seen[key] = true
		return member(key, again)
	})
}

// members is names for those who take each name only once.
func (s *scanner) members(member func(key string) error) error {
	return s.names(func(key string, again bool) error {
		if again {
			return twice(key)
		}
		return member(key)
	})
}

func twice(key string) *Error { return fieldError("", "%s occurs twice", strconv.Quote(key)) }

// unique passes over one value and refuses a name that occurs twice in an object,
// at any depth.
func (s *scanner) unique() error {
	switch s.peek() {
	case '{':
		return s.members(func(key string) error {
			err := s.unique()
			if err != nil {
				return in(key, err)
			}
			return nil
		})
	case '[':
		return s.elements(func(i int) error {
			err := s.unique()
			if err != nil {
				return in(fmt.Sprintf("[%d]", i), err)
			}
			return nil
		})
	default:
		return s.skip()
	}
}

// elements walks over the array at the scanner's position, as members does.
func (s *scanner) elements(element func(i int) error) error {
	if s.peek() != '[' {
		return fieldError("", "want a list, got %s", s.describe())
	}
	if err := s.enter(); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.pos++
		s.depth--
		return nil
	}
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			s.depth--
			return nil
		default:
			return s.syntax("',' or ']'")
		}
	}
}

// raw skips one value and returns its bytes, which alias the message.
func (s *scanner) raw() (json.RawMessage, error) {
	s.space()
	start := s.pos
	if err := s.skip(); err != nil {
		return nil, err
	}
	return json.RawMessage(s.data[start:s.pos:s.pos]), nil
}

// skip passes over one value of any type.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '{':
		return s.skipObject()
	case c == '[':
		return s.skipArray()
	case c == '"':
		_, err := s.skipString()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.skipNumber()
	case c == 't':
		return s.skipWord("true")
	case c == 'f':
		return s.skipWord("false")
	case c == 'n':
		return s.skipWord("null")
	default:
		return s.syntax("a value")
	}
}

func (s *scanner) skipObject() error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if err := s.skipKey(); err != nil {
			return err
		}
		if err := s.skip(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			s.depth--
			return nil
		default:
			return s.syntax("',' or '}'")
		}
	}
}

func (s *scanner) skipKey() error {
	if s.peek() != '"' {
		return s.syntax("a field name")
	}
	if _, err := s.skipString(); err != nil {
		return err
	}
	if s.peek() != ':' {
		return s.syntax("':'")
	}
	s.pos++
	return nil
}

func (s *scanner) skipArray() error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if err := s.skip(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			s.depth--
			return nil
		default:
			return s.syntax("',' or ']'")
		}
	}
}

// skipString passes over a string. plain says that its bytes are its text: it
// has no escapes and nothing outside ASCII.
func (s *scanner) skipString() (plain bool, err error) {
	plain = true
	data := s.data
	for i := s.pos + 1; i < len(data); i++ {
		c := data[i]
		if c >= 0x20 && c < 0x80 && c != '"' && c != '\\' {
			continue
		}
		switch {
		case c == '"':
			s.pos = i + 1
			return plain, nil
		case c >= 0x80:
			plain = false
		case c == '\\':
			plain = false
			i++
			if i >= len(data) {
				s.pos = i
				return false, s.syntax("an escaped character")
			}
			switch data[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					i++
					if i >= len(data) || !isHex(data[i]) {
						s.pos = i
						return false, s.syntax("a hexadecimal digit")
					}
				}
			default:
				s.pos = i
				return false, s.syntax("an escaped character")
			}
		default:
			s.pos = i
			return false, s.syntax("no control character")
		}
	}
	s.pos = len(data)
	return false, s.syntax("'\"'")
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s *scanner) skipNumber() error {
	if s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if !s.skipDigits() {
		return s.syntax("a digit")
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if !s.skipDigits() {
			return s.syntax("a digit")
		}
	}
	if s.pos < len(s.data) && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if !s.skipDigits() {
			return s.syntax("a digit")
		}
	}
	return nil
}

func (s *scanner) skipDigits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) skipWord(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.syntax(word)
	}
	s.pos += len(word)
	return nil
}

// describe names the type of the value at the scanner's position.
func (s *scanner) describe() string {
	switch c := s.peek(); {
	case c == 0:
		return "nothing"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '"':
		return "a string"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	default:
		return fmt.Sprintf("%q", c)
	}
}
