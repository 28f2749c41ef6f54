package hooks_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The passing of time alone moves only deadlines: whenever the hook is asked again
// before the time at which it wanted to look again, it decides the same. What it
// writes down as now is then the other time.
func TestTimeAloneMovesOnlyDeadlines(t *testing.T) {
	eachMoment(t, 8, func(t *testing.T, _ uint64, m *moment) {
		m = m.read(t)
		d, _ := m.mustAnswer(t)
		for _, after := range soonerThan(d.ResyncAfter) {
			later := *m
			later.now = m.now.Add(after)
			if change := movedOtherwise(t, m, later.read(t)); change != "" {
				t.Errorf("%s: %s later, and before the %s after which it is asked again:\n%s", m.name, after, d.ResyncAfter, change)
				return
			}
		}
	})
}

// soonerThan are times to ask again before the announced one; 0: none was announced.
func soonerThan(announced time.Duration) []time.Duration {
	if announced == 0 {
		return []time.Duration{time.Millisecond, 31 * time.Second, 2 * time.Minute, time.Hour, 30 * 24 * time.Hour}
	}
	if announced == 100*time.Millisecond {
		return nil // The deadline may be nearer than that.
	}
	return []time.Duration{time.Millisecond, announced / 2, announced - time.Millisecond}
}

// movedOtherwise is in what two answers differ, but for what is now, when to look
// again and which reading is wanted; empty: in nothing.
func movedOtherwise(t *testing.T, before, after *moment) string {
	t.Helper()
	a, b := decided(t, before), decided(t, after)
	return unlike("", a, b, before.now, after.now)
}

// decided is an answer as values.
func decided(t *testing.T, m *moment) object {
	t.Helper()
	d, response := m.mustAnswer(t)
	o := object{"status": parsed(t, response.Status), "finalized": d.Finalized, "recheck": fmt.Sprint(d.Catalog.Recheck)}
	if d.Launch != nil {
		o["launch"] = d.Launch.Name
	}
	children, patches, rules := []any{}, []any{}, []any{}
	for _, raw := range response.Children {
		children = append(children, any(parsed(t, raw)))
	}
	for _, p := range d.Patches {
		patch := tellPatch(t, p)
		// It counts the seconds.
		delete(below(patch, "body", "status"), "accumulatedPastExecutionTimeSeconds")
		patches = append(patches, patch)
	}
	for _, r := range d.Rules {
		rules = append(rules, r.Table+" "+r.Rule)
	}
	o["children"], o["patches"], o["rules"] = children, patches, rules
	return o
}

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// unlike names the first place at which two values differ. Texts are alike whose
// times are the same, or as far from now.
func unlike(place string, a, b any, nowA, nowB time.Time) string {
	switch v := a.(type) {
	case object:
		w, ok := b.(object)
		if !ok {
			break
		}
		for key := range w {
			if _, ok := v[key]; !ok {
				return fmt.Sprintf("%s.%s: only later: %v", place, key, w[key])
			}
		}
		for key := range v {
			if _, ok := w[key]; !ok {
				return fmt.Sprintf("%s.%s: only before: %v", place, key, v[key])
			}
			if change := unlike(place+"."+key, v[key], w[key], nowA, nowB); change != "" {
				return change
			}
		}
		return ""
	case []any:
		w, ok := b.([]any)
		if !ok || len(v) != len(w) {
			break
		}
		for i := range v {
			if change := unlike(fmt.Sprintf("%s[%d]", place, i), v[i], w[i], nowA, nowB); change != "" {
				return change
			}
		}
		return ""
	case string:
		w, ok := b.(string)
		if ok && alikeTimes(v, w, nowA, nowB) {
			return ""
		}
	default:
		if equal(a, b) {
			return ""
		}
	}
	return fmt.Sprintf("%s:\nbefore %v\nlater  %v", place, a, b)
}

func alikeTimes(a, b string, nowA, nowB time.Time) bool {
	timesA, timesB := timestamp.FindAllString(a, -1), timestamp.FindAllString(b, -1)
	if strings.Join(timestamp.Split(a, -1), "\x00") != strings.Join(timestamp.Split(b, -1), "\x00") || len(timesA) != len(timesB) {
		return false
	}
	for i := range timesA {
		if timesA[i] == timesB[i] {
			continue
		}
		ta, errA := time.Parse(time.RFC3339Nano, timesA[i])
		tb, errB := time.Parse(time.RFC3339Nano, timesB[i])
		if errA != nil || errB != nil {
			return false
		}
		// Whole seconds, cut off.
		if apart := ta.Sub(nowA) - tb.Sub(nowB); apart.Abs() > time.Second {
			return false
		}
	}
	return true
}
