package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Tests with names of their own, in two packages: one test for every machine, the
// others end to end.
func testPackages(t *testing.T) []suite {
	dir := t.TempDir()
	write := func(file, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const tag = "//go:build e2e\n\npackage x\n\n"
	write("jobs/a_test.go", tag+"func TestPreemptAndResume(t *testing.T) {}\n")
	write("jobs/b_test.go", "package x\n\nfunc TestPlain(t *testing.T) {}\n")
	write("applier/a_test.go", tag+"func TestStatement10Deletion(t *testing.T) {}\nfunc TestRestart(t *testing.T) {}\n")
	return []suite{{"e2e", filepath.Join(dir, "jobs")}, {"applier", filepath.Join(dir, "applier")}}
}

func TestChoose(t *testing.T) {
	among := testPackages(t)
	jobs, applier := among[0].pkg, among[1].pkg
	for chosen, want := range map[string]struct {
		packages []string
		tests    string
	}{
		"":                   {[]string{jobs, applier}, ""},
		"applier":            {[]string{applier}, ""},
		"e2e":                {[]string{jobs}, ""},
		"Preempt":            {[]string{jobs}, "Preempt"},
		"Statement10":        {[]string{applier}, "Statement10"},
		"Preempt|Restart":    {[]string{jobs, applier}, "Preempt|Restart"},
		"Restart/after_half": {[]string{applier}, "Restart/after_half"},
	} {
		packages, tests, err := choose(chosen, among)
		if err != nil || !slices.Equal(packages, want.packages) || tests != want.tests {
			t.Errorf("%q: %v, %q, %v", chosen, packages, tests, err)
		}
	}
	for chosen, want := range map[string]string{"Plain": "no test has a name like this", "Pre(": "SUITE=Pre("} {
		if _, _, err := choose(chosen, among); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", chosen, err, want)
		}
	}
}

// A package that is not there would be a suite that nobody misses.
func TestSuitesExist(t *testing.T) {
	for _, s := range append(slices.Clone(suites), kubeletSuites...) {
		if files, err := filepath.Glob(filepath.Join("..", "..", "..", s.pkg, "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s: no tests in %s", s.name, s.pkg)
		}
	}
}
