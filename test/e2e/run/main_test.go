package main

import (
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	for suite, want := range map[string]struct {
		packages []string
		tests    string
	}{
		"":         {[]string{"./test/e2e", "./test/e2e/api", "./test/cluster", "./metacontroller/applier", "./metacontroller/election", "./metacontroller/manager"}, ""},
		"applier":  {[]string{"./metacontroller/applier"}, ""},
		"api":      {[]string{"./test/e2e/api"}, ""},
		"cluster":  {[]string{"./test/cluster"}, ""},
		"e2e":      {[]string{"./test/e2e"}, ""},
		"Preempt":  {[]string{"./test/e2e"}, "Preempt"},
		"appliers": {[]string{"./test/e2e"}, "appliers"},
	} {
		packages, tests := choose(suite)
		if !slices.Equal(packages, want.packages) || tests != want.tests {
			t.Errorf("%q: %v, %q", suite, packages, tests)
		}
	}
}
