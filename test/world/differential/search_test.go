//go:build e2e

package differential

import (
	"fmt"
	"slices"
	"strings"

	"rtj.dev/rtj/test/world/apiserver"
)

const (
	// mostWorlds are followed from one rest to the next.
	mostWorlds = 8
	// mostSteps bounds the search between two rests.
	mostSteps = 20000
)

// change is a state that an object came to.
type change struct{ object, state string }

func (c change) String() string { return c.object + ": " + c.state }

// search looks for the ways in which a simulated world comes to do what was seen.
type search struct {
	part    part
	acts    []act
	seen    []change
	passing bool // time may pass
	show    string
	been    map[string]bool
	steps   int
	found   []*simulated

	// The way that came furthest, for people.
	best    int
	bestAct int
	offered []string
	wrong   string
}

// from goes on in a world in which so many acts were done, and so many changes seen.
func (f *search) from(m *simulated, acts, seen int) {
	if f.steps++; f.steps > mostSteps || len(f.found) == mostWorlds {
		return
	}
	events := m.events()
	key := fmt.Sprint(acts, seen, m.clock, m.show(), events, m.memory())
	if f.been[key] {
		return
	}
	f.been[key] = true
	if seen > f.best || seen == f.best && acts >= f.bestAct {
		f.best, f.bestAct, f.offered = seen, acts, events
		f.wrong = ""
		if seen == len(f.seen) && acts == len(f.acts) {
			f.wrong = m.show()
		}
	}
	if acts == len(f.acts) && seen == len(f.seen) && m.show() == f.show && f.rests(events) {
		f.found = append(f.found, m)
	}
	for _, name := range events {
		next := m.clone()
		next.do(name)
		f.on(next, acts, seen)
	}
	if acts < len(f.acts) {
		next := m.clone()
		a := f.acts[acts]
		if err := a.do(next); (err != nil) == a.refused {
			f.on(next, acts+1, seen)
		} else {
			f.wrong = fmt.Sprintf("  %s: %v in the model, refused really: %v\n", a.what, err, a.refused)
		}
	}
	if f.passing && acts == len(f.acts) {
		if at := m.next(); !at.IsZero() {
			next := m.clone()
			next.clock = at
			f.on(next, acts, seen)
		}
	}
}

func (f *search) rests(events []string) bool {
	return !slices.ContainsFunc(events, func(name string) bool { return !f.part.missable(name) })
}

// on goes on if what was just done is what was seen next.
func (f *search) on(m *simulated, acts, seen int) {
	n := len(m.changes)
	if n > len(f.seen)-seen || !slices.Equal(m.changes, f.seen[seen:seen+n]) {
		return
	}
	m.changes = nil
	f.from(m, acts, seen+n)
}

// explain says how far the model came.
func (f *search) explain() string {
	var b strings.Builder
	if len(f.seen) > 0 {
		b.WriteString("What was seen (> is where the model stops):\n")
	}
	for i, c := range f.seen {
		mark := " "
		if i == f.best {
			mark = ">"
		}
		fmt.Fprintf(&b, "%s %s\n", mark, c)
	}
	for _, a := range f.acts[min(f.bestAct, len(f.acts)):] {
		fmt.Fprintf(&b, "The script did: %s\n", a.what)
	}
	fmt.Fprintf(&b, "There the model offers: %s\n", strings.Join(f.offered, ", "))
	fmt.Fprintf(&b, "At rest the cluster shows:\n%s", f.show)
	if f.wrong != "" {
		fmt.Fprintf(&b, "and the model:\n%s", f.wrong)
	}
	if f.steps > mostSteps {
		b.WriteString("The search was given up: too many ways.\n")
	}
	return b.String()
}

// memory is what actors remember, as text.
type memory struct{ strings.Builder }

func (m *memory) Text(s string)              { m.add(s) }
func (m *memory) Int(n int64)                { m.add(n) }
func (m *memory) Bool(b bool)                { m.add(b) }
func (m *memory) JSON(s string)              { m.add(s) }
func (m *memory) Object(o *apiserver.Object) { m.add(o, o.Version) }
func (m *memory) add(values ...any)          { fmt.Fprintln(m, values...) }
