package world

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// lead is what may happen in a state, and to which states it leads.
type lead struct {
	from   *World
	trials []trial
	to     []int32
}

// audit compares what a state led to with what another world of the same fingerprint
// did: where they differ, a fingerprint leaves something out that matters.
func (x *explorer) audit(w todo, led lead) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w.again {
		x.found.Audited++
	}
	first := x.leads[w.state]
	switch {
	case first.from == nil:
		x.leads[w.state] = led
	case x.found.Unsound == "" && !(slices.Equal(first.trials, led.trials) && slices.Equal(first.to, led.to)):
		x.found.Unsound = first.differs(led)
		x.found.Script = led.from.done.script()
		x.more.Broadcast()
	}
}

// differs tells in words what two worlds with the same fingerprint differ in.
func (l lead) differs(other lead) string {
	var text strings.Builder
	fmt.Fprintf(&text, "two worlds have the same fingerprint. The first:\n\n%s\n", l.from.done.script())
	if !slices.Equal(l.trials, other.trials) {
		fmt.Fprintf(&text, "What may happen in it, and in the second:\n%v\n%v\n", l.trials, other.trials)
		return text.String()
	}
	for i, t := range l.trials {
		if l.to[i] == other.to[i] {
			continue
		}
		fmt.Fprintf(&text, "Upon %q they become different:\n", t.name)
		a, b := l.from.after(t), other.from.after(t)
		for name, is := range a {
			if was := b[name]; !bytes.Equal(is, was) {
				at := 0
				for at < min(len(is), len(was)) && is[at] == was[at] {
					at++
				}
				from := max(0, at-200)
				fmt.Fprintf(&text, "%s:\n%q\n%q\n", name, is[from:min(len(is), at+200)], was[from:min(len(was), at+200)])
			}
		}
		break
	}
	return text.String()
}

// after is what the world is after a trial, by its parts.
func (w *World) after(t trial) map[string][]byte {
	next := w.Clone()
	next.try(t)
	next, _ = next.goAlong()
	parts := map[string][]byte{}
	next.hash(true).Parts(func(name string, text []byte) { parts[name] = slices.Concat(parts[name], text) })
	return parts
}
