package world

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Script is a run as a list of what happened: names of events, and "clock +12s" for
// the passing of time.
type Script []string

// past is what happened last, and before that: clones share it.
type past struct {
	before *past
	line   string
}

func (p *past) script() (s Script) {
	for ; p != nil; p = p.before {
		s = append(s, p.line)
	}
	slices.Reverse(s)
	return s
}

// passing is the line of a script for time that passes.
func passing(d time.Duration) string { return "clock +" + d.String() }

// timeOf reads such a line.
func timeOf(line string) (time.Duration, bool) {
	text, ok := strings.CutPrefix(line, "clock +")
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

func (s Script) String() string { return strings.Join(s, "\n") + "\n" }

// ParseScript reads what String wrote; lines that begin with # and empty ones are
// passed over.
func ParseScript(text string) (s Script) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			s = append(s, line)
		}
	}
	return s
}

// perform does what a script says, and passes over what cannot happen.
func (w *World) perform(s Script) {
	w.offerFaults(true)
	for _, line := range s {
		if w.broken != nil {
			return
		}
		if d, ok := timeOf(line); ok {
			w.pass(d)
			continue
		}
		if line == healing {
			w.heal()
			continue
		}
		for c := range w.events() {
			if c.Name == line {
				w.do(*c)
				break
			}
		}
	}
}

// Broken is a promise that was not kept.
type Broken struct {
	// Promise is its name in promises.go.
	Promise string
	// What was seen.
	What string
	// At is the world's time, and Step the number of events until then.
	At   time.Time
	Step int
}

func (b *Broken) Error() string {
	return fmt.Sprintf("%s: %s (at %s, after %d events)", b.Promise, b.What, b.At.Format(time.TimeOnly), b.Step)
}
