package main

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// source is one file and what is written into its instrumented copy. Nothing
// that is written has a line break, so that both have the same lines.
type source struct {
	// name is the path in the tree, such as compose/drain.go.
	name string
	text string
	base int // position of the file's first byte in the token.FileSet

	wraps []wrap
	cuts  []edit
}

// edit replaces the bytes from start to end.
type edit struct {
	start, end int
	text       string
}

// wrap puts text before and after a part of the file.
type wrap struct {
	start, end int
	// level is 1 for a statement, which lies around an expression of the same extent.
	level, seq     int
	before, behind string
}

func (f *source) span(from, to token.Pos) (int, int) {
	return int(from) - f.base, int(to) - f.base
}

// wrap lies around every earlier one of the same extent and level.
func (f *source) wrap(from, to token.Pos, level int, before, behind string) {
	start, end := f.span(from, to)
	f.wraps = append(f.wraps, wrap{start, end, level, len(f.wraps), before, behind})
}

func (f *source) cut(from, to token.Pos, text string) {
	start, end := f.span(from, to)
	f.cuts = append(f.cuts, edit{start, end, text})
}

// insertion is one side of a wrap.
type insertion struct {
	wrap
	at     int
	prefix bool
}

// instrumented is the text with all wraps and cuts.
func (f *source) instrumented() string {
	var list []insertion
	for _, w := range f.wraps {
		list = append(list, insertion{w, w.start, true}, insertion{w, w.end, false})
	}
	slices.SortFunc(list, func(a, b insertion) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		if a.prefix != b.prefix {
			// What ends here comes before what begins here.
			if b.prefix {
				return -1
			}
			return 1
		}
		if a.prefix {
			// The outermost first.
			return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(b.level, a.level), cmp.Compare(b.seq, a.seq))
		}
		return cmp.Or(cmp.Compare(b.start, a.start), cmp.Compare(a.level, b.level), cmp.Compare(a.seq, b.seq))
	})
	var edits []edit
	for _, i := range list {
		text := i.before
		if !i.prefix {
			text = i.behind
		}
		edits = append(edits, edit{i.at, i.at, text})
	}
	edits = append(edits, f.cuts...)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	return apply(f.text, edits)
}

// apply makes edits that do not overlap and come in order.
func apply(text string, edits []edit) string {
	var out strings.Builder
	at := 0
	for _, e := range edits {
		out.WriteString(text[at:e.start])
		out.WriteString(e.text)
		at = e.end
	}
	out.WriteString(text[at:])
	return out.String()
}

// difference shows edits as a unified diff with three lines around them.
func difference(name, text string, edits []edit) string {
	const around = 3
	changed := apply(text, edits)
	before, after := strings.Split(text, "\n"), strings.Split(changed, "\n")
	head := 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	first := max(head-around, 0)
	last := min(len(before)-tail+around, len(before))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", name, name, first+1, last-first, first+1, last-first+len(after)-len(before))
	line := func(mark string, lines []string) {
		for _, l := range lines {
			out.WriteString(mark + l + "\n")
		}
	}
	line(" ", before[first:head])
	line("-", before[head:len(before)-tail])
	line("+", after[head:len(after)-tail])
	line(" ", before[len(before)-tail:last])
	return out.String()
}
