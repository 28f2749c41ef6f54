package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// Every bug of the table has a patch that takes its fix out, and every patch a bug.
func TestEveryBugHasItsPatch(t *testing.T) {
	all, err := bugs(root)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, b := range all {
		named[b.patch] = true
		if _, err := os.Stat(filepath.Join(root, patches, b.patch+".patch")); err != nil {
			t.Errorf("%s: %s", b.what, err)
		}
		for _, show := range b.shows {
			if _, err := command(show); err != nil {
				t.Errorf("%s: %s", b.what, err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(root, patches, "*.patch"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".patch"); !named[name] {
			t.Errorf("%s: no bug of %s names it", name, document)
		}
	}
}

// Every patch applies to the tree as it is: one that a change of the core has overtaken
// is made anew with that change.
func TestEveryPatchApplies(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := bugs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if _, err := without(t.Context(), root, filepath.Join(root, patches, b.patch+".patch"), t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

func TestRowsAreRead(t *testing.T) {
	b, err := row("| it burns | `sync/it-burns`; `make sim SEED=7` (found twice) | 0123456 | `fire` |")
	if err != nil || b.what != "it burns" || len(b.shows) != 2 || b.shows[1] != "make sim SEED=7" || b.patch != "fire" {
		t.Errorf("%+v, %v", b, err)
	}
	for _, line := range []string{"| it burns | `sync/a` | 0123456 |", "| it burns | one sees it | 0123456 | `fire` |", "| it burns | `sync/a` | 0123456 | fire |"} {
		if b, err := row(line); err == nil {
			t.Errorf("%s: %+v", line, b)
		}
	}
}

func TestWhatShowsABugIsACommand(t *testing.T) {
	for show, want := range map[string]string{
		"sync/a-b":                          "test ./hooks -run ^TestGolden$/^a-b$",
		"lifecycle/a":                       "test ./test/lifecycle -run ^TestScripts$/^a$",
		"go test ./x -run Y":                "test ./x -run Y",
		"make sim SEED=7":                   "sim -seed 7 -tries 0",
		"go run ./test/world/sim -cycles 1": "sim -cycles 1",
		"test_a.py::B::c":                   "pytest tests/test_a.py::B::c",
	} {
		c, err := command(show)
		if got := strings.Join(append([]string{string(c.tool)}, c.args...), " "); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", show, got, err, want)
		}
	}
	if c, err := command("rm -r x"); err == nil {
		t.Errorf("%+v", c)
	}
}
