package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// heading is what the table of bugs follows in the document, and patches is where the
// fixes are kept as they are taken out.
const (
	document = "docs/simulation.md"
	heading  = "## Bugs that were found"
	patches  = "test/world/testdata/reverted"
)

// bug is a row of the table.
type bug struct {
	what string
	// shows are the tests, seeds and scripts that fail without the fix.
	shows []string
	// patch is the file that takes the fix out, without its folder and ending.
	patch string
}

var quoted = regexp.MustCompile("`([^`]+)`")

// bugs reads the table: what, how it shows, the commit that fixes it, the patch.
func bugs(root string) (all []bug, err error) {
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		return nil, err
	}
	_, after, ok := strings.Cut(string(text), heading+"\n")
	if !ok {
		return nil, fmt.Errorf("%s has no %q", document, heading)
	}
	for i, line := range tableIn(after) {
		if i < 2 {
			continue // the head
		}
		b, err := row(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", document, err, line)
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no table follows %q", document, heading)
	}
	return all, nil
}

// tableIn are the lines of the first table in a text.
func tableIn(text string) (lines []string) {
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "|"):
			lines = append(lines, line)
		case len(lines) > 0 || strings.HasPrefix(line, "## "):
			return lines
		}
	}
	return lines
}

func row(line string) (b bug, err error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 4 {
		return b, fmt.Errorf("%d cells, want 4", len(cells))
	}
	b.what = strings.TrimSpace(cells[0])
	for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
		b.shows = append(b.shows, m[1])
	}
	if len(b.shows) == 0 {
		return b, fmt.Errorf("nothing shows it")
	}
	m := quoted.FindStringSubmatch(cells[3])
	if m == nil {
		return b, fmt.Errorf("no patch takes the fix out")
	}
	b.patch = m[1]
	return b, nil
}
