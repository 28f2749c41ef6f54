package hooks_test

import (
	"strings"
	"testing"
)

// maxAnswers is how many answers a moment may take to come to rest: an attempt comes
// to life in three steps, each of which waits until the one before is observed.
const maxAnswers = 20

// An answer that is applied leads to one that has nothing to write: once children
// and status are written, patches are made and the store is read, at the same
// instant, nothing is written twice, no child is created that goes at once, and the
// job comes to rest.
func TestAnAppliedAnswerIsAFixedPoint(t *testing.T) {
	eachMoment(t, 8, func(t *testing.T, _ uint64, m *moment) {
		if broken := settle(newCluster(t, m)); broken != "" {
			t.Errorf("%s: %s", m.name, broken)
		}
	})
}

// settle answers and applies until nothing is written. It returns what must not be.
func settle(c *cluster) string {
	c.t.Helper()
	for range maxAnswers {
		now := c.now()
		d, response := now.mustAnswer(c.t)
		before := len(c.made)
		if c.apply(now.request, d, response); d.Finalized {
			return ""
		}
		if again := repeated(c.made); again != "" {
			return again + ":\n" + c.story()
		}
		wants := !d.Catalog.NotBefore.IsZero()
		if wants {
			if c.moment.catalog != nil && !c.moment.catalog.ListedAt.Before(d.Catalog.NotBefore) {
				return "a reading is asked for that was made"
			}
			c.read()
		}
		if len(c.made) == before && !wants {
			return ""
		}
	}
	return "does not come to rest:\n" + c.story()
}

// repeated returns a write that was made before, or that deletes what was
// created. A child may be deleted and made anew.
func repeated(made []string) string {
	seen := map[string]bool{}
	for _, write := range made {
		if seen[write] {
			return "written twice: " + write
		}
		seen[write] = true
		verb, id, _ := strings.Cut(write, " ")
		if verb == "delete" && seen["create "+id] {
			return "created and deleted: " + id
		}
	}
	return ""
}

// story is what was written, for a person to read.
func (c *cluster) story() string {
	lines := make([]string, len(c.made))
	for i, write := range c.made {
		if raw, ok := strings.CutPrefix(write, "status "); ok {
			o := parsed(c.t, []byte(raw))
			delete(o, "conditions")
			write = "status " + string(encoded(c.t, o))
		}
		lines[i] = write
	}
	return strings.Join(lines, "\n")
}
