package applier

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Each statement of docs/applier.md has a test of its number, and each such test
// a statement.
func TestEachStatementHasATest(t *testing.T) {
	document, err := os.ReadFile("../../docs/applier.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := numbers(document, `(?m)^\| (\d\d) \| `)
	if len(stated) != 41 {
		t.Errorf("%d statements: %v", len(stated), stated)
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
		tested = append(tested, numbers(text, `(?m)^func TestStatement(\d\d)[A-Z]`)...)
	}
	slices.Sort(tested)
	tested = slices.Compact(tested)
	if !slices.Equal(stated, tested) {
		t.Errorf("stated %v\ntested %v", stated, tested)
	}
}

func numbers(text []byte, pattern string) []string {
	var list []string
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		list = append(list, string(m[1]))
	}
	return list
}
