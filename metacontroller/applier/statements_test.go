package applier

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Each statement of docs/applier.md has a test of its number, each such test a
// statement, and the files where statements are done exist.
func TestEachStatementHasATest(t *testing.T) {
	document, err := os.ReadFile("../../docs/applier.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := matches(document, `(?m)^\| (\d\d) \| `)
	if len(stated) != 41 {
		t.Errorf("%d statements: %v", len(stated), stated)
	}
	done := matches(document, `(?m)^\| \d\d \| .* \| \[\S+\]\((\S+\.go)\) \|$`)
	if len(done) != len(stated) {
		t.Errorf("%d statements, and %d say where they are done", len(stated), len(done))
	}
	for _, file := range done {
		if _, err := os.Stat(filepath.Join("../../docs", file)); err != nil {
			t.Error(err)
		}
	}
	files, err := filepath.Glob("../*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tested []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tested = append(tested, matches(text, `(?m)^func TestStatement(\d\d)[A-Z]`)...)
	}
	slices.Sort(tested)
	tested = slices.Compact(tested)
	if !slices.Equal(stated, tested) {
		t.Errorf("stated %v\ntested %v", stated, tested)
	}
}

func matches(text []byte, pattern string) []string {
	var list []string
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		list = append(list, string(m[1]))
	}
	return list
}
