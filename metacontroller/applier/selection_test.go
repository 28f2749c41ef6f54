package applier

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func TestTermsOfASelector(t *testing.T) {
	for selector, want := range map[string][]string{
		"":                        {""},
		"!a,b!=1,c notin (x,y)":   {""},
		"a":                       {"a"},
		"a=1":                     {"a=1"},
		"a=1,b=longer":            {"b=longer"},
		"a in (x,y),b,!c,d!=1":    {"a=x", "a=y"},
		"a in (x,y,z),b in (u,v)": {"b=u", "b=v"},
		"a,b in (u,v)":            {"b=u", "b=v"},
		"a in (only)":             {"a=only"},
	} {
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		got := termsOf(parsed)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", selector, got, want)
		}
	}
}

// Whatever a selector matches is found by one of its terms.
func TestTermsCoverWhatIsSelected(t *testing.T) {
	values := []string{"", "1", "2"}
	var sets []labels.Set
	for _, a := range values {
		for _, b := range values {
			set := labels.Set{}
			if a != "" {
				set["a"] = a
			}
			if b != "" {
				set["b"] = b
			}
			sets = append(sets, set)
		}
	}
	parts := []string{"", "%s", "!%s", "%s=1", "%s!=1", "%s in (1,2)", "%s notin (1)"}
	for _, left := range parts {
		for _, right := range parts {
			text := ""
			for key, part := range map[string]string{"a": left, "b": right} {
				if part != "" {
					text += "," + fmt.Sprintf(part, key)
				}
			}
			selector, err := labels.Parse(text[min(1, len(text)):])
			if err != nil {
				t.Fatal(err)
			}
			terms := termsOf(selector)
			for _, set := range sets {
				if selector.Matches(set) && !slices.ContainsFunc(termsOfLabels(set), func(term string) bool { return slices.Contains(terms, term) }) {
					t.Errorf("%q matches %v, which has none of %q", selector, set, terms)
				}
			}
		}
	}
}
