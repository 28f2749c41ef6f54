package scenario_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

var (
	row       = regexp.MustCompile(`^\| (P\d{3}) \| [A-Za-z ]+ \| [^|]+ \| (.+) \|$`)
	reference = regexp.MustCompile("`([^`]+)`")
)

// TestDocumentedScenariosHaveTheirTests: docs/scenarios.md has every scenario once,
// in order, and each test that it names exists.
func TestDocumentedScenariosHaveTheirTests(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	next := 1
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| P") {
			continue
		}
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Errorf("not a row of id, kind, what goes wrong and test: %s", line)
			continue
		}
		if n, _ := strconv.Atoi(m[1][1:]); n != next {
			t.Errorf("%s stands where P%03d should", m[1], next)
		}
		next++
		tests := reference.FindAllStringSubmatch(m[2], -1)
		if open := strings.HasPrefix(m[2], "open: "); open == (len(tests) > 0) {
			t.Errorf("%s has to name its test, or `open:` and what is missing: %s", m[1], m[2])
		}
		for _, name := range tests {
			if missing := lookUp(name[1]); missing != "" {
				t.Errorf("%s names %q: %s", m[1], name[1], missing)
			}
		}
	}
	if next != 90 {
		t.Errorf("%d scenarios, want 89", next-1)
	}
}

// lookUp says why a test does not exist.
func lookUp(name string) string {
	where, test, _ := strings.Cut(name, " ")
	switch {
	case strings.HasPrefix(name, "sync/"):
		return exists("testdata/" + name + "/desired.yaml")
	case strings.HasPrefix(name, "checkpoint/"):
		table, row, _ := strings.Cut(name, ": ")
		return contains("testdata/"+table+".yaml", row)
	case strings.HasPrefix(name, "lifecycle/"):
		return exists("testdata/" + name + ".txt")
	case strings.HasSuffix(where, ".py"):
		return contains(where, "def "+test+"(")
	}
	function, sub, _ := strings.Cut(test, "/")
	files, err := filepath.Glob(filepath.Join(root, where, "*_test.go"))
	if err != nil || len(files) == 0 {
		return "no tests in " + where
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(string(text), "func "+function+"(") {
			continue
		}
		if sub != "" && !strings.Contains(string(text), strconv.Quote(sub)) {
			return file + " has no case " + sub
		}
		return ""
	}
	return "no test " + function
}

func exists(path string) string {
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		return "there is no " + path
	}
	return ""
}

func contains(path, text string) string {
	data, err := os.ReadFile(filepath.Join(root, path))
	switch {
	case err != nil:
		return err.Error()
	case !strings.Contains(string(data), text):
		return path + " has no " + text
	}
	return ""
}
