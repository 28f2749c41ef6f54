package world

import (
	"slices"
	"testing"
)

func TestShrinkKeepsWhatMatters(t *testing.T) {
	var s Script
	for i := range 200 {
		s = append(s, string(rune('a'+i%26)))
	}
	s[17], s[150] = "first", "second"
	fails := func(s Script) bool {
		i := slices.Index(s, "first")
		return i >= 0 && slices.Index(s[i:], "second") > 0
	}
	if got := shrink(s, 10000, fails, nil); !slices.Equal(got, Script{"first", "second"}) {
		t.Errorf("shrunk to %q", got)
	}
}

func TestShrinkEndsWithItsBudget(t *testing.T) {
	tries := 0
	s := slices.Repeat(Script{"a"}, 100)
	shrink(s, 7, func(Script) bool { tries++; return false }, nil)
	if tries != 7 {
		t.Errorf("%d tries, want 7", tries)
	}
}

func TestScriptsAreRead(t *testing.T) {
	s := Script{"user: pause team/a", passing(1500e6), "kueue: admit team/a-w1"}
	if got := ParseScript("# a comment\n\n" + s.String()); !slices.Equal(got, s) {
		t.Errorf("got %q", got)
	}
	if d, ok := timeOf(s[1]); !ok || d != 1500e6 {
		t.Errorf("%q is %s", s[1], d)
	}
}
