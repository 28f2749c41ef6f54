package plan

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestMemoryForgetsWhatIsGone(t *testing.T) {
	s := NewMemory()
	s.For("parent")
	left := compare(map[string]any{}, map[string]any{"a": int64(1)}, true)
	for _, uid := range []types.UID{"parent", "kept", "gone"} {
		s.remember(uid, left)
		s.noteApplied(uid, nil)
	}
	s.prune(map[types.UID]bool{"parent": true, "kept": true})
	if n, _ := s.Recorded(); n != 2 || s.knows("gone", left) || !s.knows("kept", left) {
		t.Errorf("%d objects are remembered", n)
	}
	s.Failures = 3
	s.For("another")
	if n, _ := s.Recorded(); n > 0 || s.Failures != 3 {
		t.Errorf("a new parent of the name inherits %d records, and has failed %d times", n, s.Failures)
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"", "1", true}, {"x", "1", false}, {"1", "x", false}} {
		if got := Older(c.a, c.b); got != c.want {
			t.Errorf("Older(%q, %q) = %v", c.a, c.b, got)
		}
	}
}
