package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// suite is a test that may kill a mutant, in parts that can be run alone.
type suite struct {
	name   string
	folder string // of its package
	test   string // the test, of which parts are the subtests
	parts  func() ([]string, error)
	args   []string
	// each is the test that runs all parts under one mutant after the other, in one
	// process; empty where there is none.
	each string
	// unit: it tests a part of the core by itself, and counts apart.
	unit bool
}

// suites, the quickest to kill first, those of a part last: what they kill is what
// nothing else does.
var suites = []suite{
	{name: "golden", folder: "hooks", test: "TestGolden", each: "TestGoldenUnderMutants", parts: entries("testdata/sync/*/observed.yaml", inFolder)},
	{name: "tables", folder: "compose/checkpoint", test: "^Test(Selections|Documents|Completeness)$", parts: whole},
	{name: "scripts", folder: "test/lifecycle", test: "TestScripts", parts: entries("testdata/lifecycle/*.txt", func(p string) string { return strings.TrimSuffix(filepath.Base(p), ".txt") })},
	{name: "stores", folder: "hooks/catalog", test: "TestSampleStores", parts: entries("testdata/manifests/*/team-a", inFolder)},
	{name: "promises", folder: "compose", test: "TestDecisionsKeepThePromises", parts: names(
		"golden_case", "golden_case_at_another_time", "golden_case_of_which_something_is_not_seen", "golden_case_with_another_store",
		"two_golden_cases_mixed_up", "job_that_runs", "anything"), args: []string{"-more", "0.3"}},
	{name: "world", folder: "test/world", test: "TestWorldsKeepThePromises", parts: whole, args: []string{"-calls", "2500"}},
	{name: "render", folder: "hooks", test: "TestRender", parts: whole, unit: true},
	{name: "units", folder: "compose/checkpoint", test: "Test", parts: whole, unit: true},
}

func suiteNames() (list []string) {
	for _, s := range suites {
		list = append(list, s.name)
	}
	return list
}

func isUnit(name string) bool {
	return slices.ContainsFunc(suites, func(s suite) bool { return s.name == name && s.unit })
}

func chooseSuites(text string) ([]suite, error) {
	if text == "" {
		return suites, nil
	}
	var chosen []suite
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(suiteNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("there is no suite %q; there are %s", name, strings.Join(suiteNames(), ", "))
		}
		chosen = append(chosen, suites[i])
	}
	return chosen, nil
}

// whole is a suite that is not taken apart.
func whole() ([]string, error) { return []string{""}, nil }

func names(list ...string) func() ([]string, error) {
	return func() ([]string, error) { return list, nil }
}

func entries(pattern string, name func(path string) string) func() ([]string, error) {
	return func() ([]string, error) {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			dir, _ := os.Getwd()
			return nil, fmt.Errorf("%s has no %s: run this at the root of the tree", dir, pattern)
		}
		var list []string
		for _, file := range files {
			list = append(list, name(file))
		}
		return list, nil
	}
}

// inFolder is the name of the folder that the path is in.
func inFolder(path string) string { return filepath.Base(filepath.Dir(path)) }

// pattern selects parts of the suite for -test.run.
func (s *suite) pattern(parts []string) string {
	if len(parts) == 1 && parts[0] == "" {
		return s.test
	}
	return "^" + s.test + "$/^(" + strings.Join(parts, "|") + ")$"
}
