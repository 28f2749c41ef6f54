package main

import (
	"strings"
	"testing"
)

func TestFlagsThatDoNotFitAreRefused(t *testing.T) {
	for given, wrong := range map[string]string{
		"":                   "",
		"seeds base":         "",
		"seeds keep-going":   "",
		"seed":               "",
		"seed script":        "",
		"seed tries":         "",
		"cycles base":        "",
		"script":             "say which with -seed",
		"script seeds":       "say which with -seed",
		"cycles seed":        "-cycles has a world of its own",
		"cycles script seed": "-cycles has a world of its own",
		"cycles seeds":       "-cycles has a world of its own",
		"seed seeds":         "-seed is one world",
		"seed base":          "-seed is one world",
		"seed keep-going":    "-seed is one world",
	} {
		flags := map[string]bool{}
		for _, name := range strings.Fields(given) {
			flags[name] = true
		}
		err := fit(flags)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: %v, want %q", given, err, wrong)
		}
	}
}

func TestValuesThatMeanNothingAreRefused(t *testing.T) {
	for _, c := range []struct {
		seeds                  uint64
		one                    int64
		cycles, workers, tries int
		given, rest, wrong     string
	}{
		{2000, -1, 0, 2, 3000, "", "", ""},
		{2000, 0, 0, 2, 3000, "seed", "", ""},
		{2000, -1, 1, 2, 0, "cycles tries", "", ""},
		{0, -1, 0, 2, 3000, "seeds", "", "-seeds 0"},
		{2000, -5, 0, 2, 3000, "seed", "", "-seed -5"},
		{2000, -1, 0, 2, 3000, "cycles", "", "-cycles 0"},
		{2000, -1, 0, 0, 3000, "workers", "", "-workers 0"},
		{2000, -1, 0, 2, -1, "tries", "", "-tries -1"},
		{2000, -1, 0, 2, 3000, "", "nonsense", `"nonsense" is no flag`},
	} {
		flags := map[string]bool{}
		for _, name := range strings.Fields(c.given) {
			flags[name] = true
		}
		err := sensible(c.seeds, c.one, c.cycles, c.workers, c.tries, flags, strings.Fields(c.rest))
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
