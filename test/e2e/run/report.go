package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// report shows tests as they end and counts those that are not part of another.
type report struct {
	to io.Writer
	// output of tests that have not ended, subtests with their parent.
	output                  map[string][]string
	passed, failed, skipped int
	failures                []string
	// failedIn tells packages that failed by a test from those that failed otherwise.
	failedIn map[string]bool
}

func newReport(to io.Writer) *report {
	return &report{to: to, output: map[string][]string{}, failedIn: map[string]bool{}}
}

func (r *report) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(r.to, lines.Text()) // a word of the go command itself
			continue
		}
		r.take(&e)
	}
	return lines.Err()
}

func (r *report) take(e *event) {
	top, _, isSub := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	switch e.Action {
	case "output":
		switch {
		case e.Test == "", strings.HasPrefix(e.Output, "figure: "), strings.HasPrefix(e.Output, "write: "):
			r.say(e.Output)
		case !chatter(e.Output):
			r.output[key] = append(r.output[key], e.Output)
		}
	case "build-output":
		fmt.Fprint(r.to, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			if e.Action == "fail" && !r.failedIn[e.Package] {
				r.fail(e.Package)
			}
			return
		}
		if !isSub {
			r.end(e, key)
		}
	}
}

// say passes on what is printed outside of tests: the cluster's progress.
func (r *report) say(line string) {
	text := strings.TrimSpace(line)
	if text == "PASS" || text == "FAIL" || strings.HasPrefix(text, "ok  \t") || strings.HasPrefix(text, "FAIL\t") || strings.HasPrefix(text, "testing: warning") {
		return
	}
	fmt.Fprint(r.to, line)
}

// chatter are the lines by which go test says what it does.
func chatter(line string) bool {
	text := strings.TrimSpace(line)
	for _, prefix := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

func (r *report) end(e *event, key string) {
	word := map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "skip"}[e.Action]
	fmt.Fprintf(r.to, "%s %6.1f s  %s\n", word, e.Elapsed, e.Test)
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
		r.quote(key)
	case "fail":
		r.failedIn[e.Package] = true
		r.fail(e.Test)
		r.quote(key)
	}
	delete(r.output, key)
}

func (r *report) quote(key string) {
	for _, line := range r.output[key] {
		fmt.Fprint(r.to, "    ", line)
	}
}

func (r *report) fail(name string) {
	r.failed++
	r.failures = append(r.failures, name)
	// A test that was cut short, by a panic for example, has not ended.
	if !strings.HasPrefix(name, "Test") {
		for key := range r.output {
			if strings.HasPrefix(key, name+" ") {
				r.quote(key)
				delete(r.output, key)
			}
		}
	}
}
