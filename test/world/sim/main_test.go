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
