package lifecycle

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
)

// step is one command and the output that is expected after it.
type step struct {
	// before are the lines above the command: comments and empty lines.
	before  string
	command string
	line    int
	want    string
}

const separator = "----"

// parseScript takes a script apart: a command, the separator, and the output up
// to an empty line.
func parseScript(text []byte) ([]step, string, error) {
	var steps []step
	var before strings.Builder
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	n := 0
	next := func() (string, bool) {
		ok := scanner.Scan()
		n++
		return scanner.Text(), ok
	}
	for line, ok := next(); ok; line, ok = next() {
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "#") {
			before.WriteString(line + "\n")
			continue
		}
		s := step{before: before.String(), command: line, line: n}
		before.Reset()
		// A script that is new has commands alone.
		if line, ok = next(); ok && line == separator {
			var want strings.Builder
			for line, ok = next(); ok && line != ""; line, ok = next() {
				want.WriteString(line + "\n")
			}
			s.want = want.String()
		} else if ok && strings.TrimSpace(line) != "" {
			return nil, "", fmt.Errorf("line %d: want %s or an empty line after a command, got %q", n, separator, line)
		}
		steps = append(steps, s)
	}
	return steps, before.String(), scanner.Err()
}

// Run runs a script and returns it with the output that it has now, on an error
// up to the command that failed.
func Run(text []byte) ([]byte, error) {
	steps, rest, err := parseScript(text)
	if err != nil {
		return nil, err
	}
	w := newWorld()
	var out bytes.Buffer
	for i, s := range steps {
		got, err := w.run(s.command)
		if err != nil {
			return out.Bytes(), fmt.Errorf("line %d: %s: %w", s.line, s.command, err)
		}
		fmt.Fprintf(&out, "%s%s\n%s\n%s", s.before, s.command, separator, got)
		if i < len(steps)-1 || rest != "" {
			out.WriteString("\n")
		}
	}
	out.WriteString(rest)
	return out.Bytes(), nil
}
