package jobs

import (
	"maps"
	"time"
)

// object is a JSON object.
type object = map[string]any

// at returns the value at a path of keys; nil when there is none.
func at(o object, path ...string) any {
	var value any = o
	for _, key := range path {
		m, ok := value.(object)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

func text(o object, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

func list(o object, path ...string) []any {
	l, _ := at(o, path...).([]any)
	return l
}

func below(o object, path ...string) object {
	m, _ := at(o, path...).(object)
	return m
}

// number returns a whole number, or the fallback when there is none.
func number(o object, fallback int64, path ...string) int64 {
	switch n := at(o, path...).(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return fallback
}

func isTrue(o object, path ...string) bool {
	is, _ := at(o, path...).(bool)
	return is
}

// with returns a copy of an object with more entries.
func with(o, more object) object {
	c := make(object, len(o)+len(more))
	maps.Copy(c, o)
	maps.Copy(c, more)
	return c
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// moment reads a timestamp; zero when there is none.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// conditionIn returns the condition of a type; nil when there is none.
func conditionIn(conditions []any, kind string) object {
	for _, item := range conditions {
		if c, ok := item.(object); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}
