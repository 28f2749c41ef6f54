package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"rtj.dev/rtj/test/figures"
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
	output          map[string][]string
	passed, skipped int
	// passedIn counts the passed tests of a package.
	passedIn map[string]int
	// cutShort are packages in which a panic kept tests from being run.
	cutShort map[string]bool
	// failures are what failed; unsteady, what failed and passed when it was run again.
	failures, unsteady []failure
}

// failure is a test that failed; test is empty for a package that failed by none
// of its tests.
type failure struct{ pkg, test string }

func newReport(to io.Writer) *report {
	return &report{to: to, output: map[string][]string{}, passedIn: map[string]int{}, cutShort: map[string]bool{}}
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
		if strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ") {
			r.cutShort[e.Package] = true
		}
		switch {
		case e.Test == "", strings.HasPrefix(e.Output, figures.Prefix), strings.HasPrefix(e.Output, "write: "), strings.HasPrefix(e.Output, "faults: "):
			r.say(e.Output)
		case !chatter(e.Output):
			r.output[key] = append(r.output[key], e.Output)
		}
	case "build-output":
		fmt.Fprint(r.to, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			if e.Action == "fail" && !r.failedIn(e.Package) {
				r.failures = append(r.failures, failure{pkg: e.Package})
				r.quoteCutShort(e.Package)
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
		r.passedIn[e.Package]++
	case "skip":
		r.skipped++
		r.quote(key)
	case "fail":
		r.failures = append(r.failures, failure{e.Package, e.Test})
		r.quote(key)
	}
	delete(r.output, key)
}

func (r *report) quote(key string) {
	for _, line := range r.output[key] {
		fmt.Fprint(r.to, "    ", line)
	}
}

// quoteCutShort quotes the tests of a package that have not ended, for example
// since one of them panicked.
func (r *report) quoteCutShort(pkg string) {
	for key := range r.output {
		if strings.HasPrefix(key, pkg+" ") {
			r.quote(key)
			delete(r.output, key)
		}
	}
}

func (r *report) failedIn(pkg string) bool {
	return slices.ContainsFunc(r.failures, func(f failure) bool { return f.pkg == pkg })
}

// names lists tests, and packages where none of their tests is known.
func (r *report) names(list []failure) string {
	var names []string
	for _, f := range list {
		if f.test == "" {
			names = append(names, f.pkg)
		} else {
			names = append(names, f.test)
		}
	}
	return strings.Join(names, ", ")
}

// tryAgain runs the tests that failed once more, package by package. A package in
// which not all tests were run is run as a whole.
func (r *report) tryAgain(run func(pkg, tests string) (*report, error)) error {
	failed := r.failures
	r.failures = nil
	for len(failed) > 0 {
		pkg := failed[0].pkg
		whole := r.cutShort[pkg]
		var here, others []failure
		var tests []string
		for _, f := range failed {
			if f.pkg != pkg {
				others = append(others, f)
				continue
			}
			here, tests = append(here, f), append(tests, f.test)
			whole = whole || f.test == ""
		}
		failed = others
		pattern := "^(" + strings.Join(tests, "|") + ")$"
		if whole {
			pattern = ""
			r.passed -= r.passedIn[pkg]
		}
		fmt.Fprintln(r.to, "once more:", r.names(here))
		second, err := run(pkg, pattern)
		if err != nil {
			return err
		}
		r.failures = append(r.failures, second.failures...)
		r.passed += second.passed
		for _, f := range here {
			if !slices.Contains(second.failures, f) {
				r.unsteady = append(r.unsteady, f)
			}
		}
	}
	return nil
}
