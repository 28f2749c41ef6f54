package contract

import "encoding/json"

// object reads one Kubernetes object without its metadata.managedFields. The
// bytes alias the message, except where something was left out.
func (s *scanner) object() (json.RawMessage, error) {
	if s.peek() != '{' {
		return nil, fieldError("", "want an object, got %s", s.describe())
	}
	start := s.pos
	var cut span
	if err := s.objectMembers(&cut); err != nil {
		return nil, err
	}
	if s.serverSide = false; cut.empty() {
		return json.RawMessage(s.data[start:s.pos:s.pos]), nil
	}
	kept := make(json.RawMessage, 0, (cut.start-start)+(s.pos-cut.end))
	kept = append(kept, s.data[start:cut.start]...)
	kept = append(kept, s.data[cut.end:s.pos]...)
	s.serverSide = appliedServerSide(kept, s.data[cut.start:cut.end])
	return kept, nil
}

// span is a part of the message, from start up to and without end.
type span struct{ start, end int }

func (c span) empty() bool { return c.start == c.end }

func (s *scanner) objectMembers(cut *span) error {
	return s.walk(func(key []byte, _ bool, _ int) error {
		if string(key) == "metadata" && s.peek() == '{' && cut.empty() {
			return s.metadataMembers(cut)
		}
		return s.skip()
	})
}

func (s *scanner) metadataMembers(cut *span) error {
	return s.walk(func(key []byte, _ bool, start int) error {
		if string(key) != "managedFields" || !cut.empty() {
			return s.skip()
		}
		if err := s.skip(); err != nil {
			return err
		}
		// The comma that goes with the member is the one after it, or the one
		// before it if it is the last.
		switch end := s.pos; s.peek() {
		case ',':
			*cut = span{start, s.pos + 1}
		case '}':
			for start > 0 && isSpace(s.data[start-1]) {
				start--
			}
			if s.data[start-1] == ',' {
				start--
			}
			*cut = span{start, end}
		}
		return nil
	})
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
