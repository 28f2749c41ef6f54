package applier

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func TestBackoffDoublesWithinBounds(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: firstBackoff, 1: firstBackoff, 2: 2 * firstBackoff, 5: 16 * firstBackoff, 11: maxBackoff, 1 << 30: maxBackoff,
	} {
		for range 100 {
			if got := backoff(failures); got < want || got > want+want/5 {
				t.Errorf("after %d failures: %s, want %s and at most a fifth more", failures, got, want)
			}
		}
	}
}

type slowDown struct{ time.Duration }

func (s slowDown) Error() string             { return "slow down" }
func (s slowDown) RetryAfter() time.Duration { return s.Duration }

func TestRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"none":                {errors.New("x"), 0},
		"from a hook":         {fmt.Errorf("sync hook: %w", &RetryAfter{Delay: 7 * time.Second, Err: errors.New("x")}), 7 * time.Second},
		"never at once":       {&RetryAfter{Err: errors.New("429")}, time.Second},
		"by method":           {errors.Join(errors.New("y"), slowDown{3 * time.Second}), 3 * time.Second},
		"from the API server": {fmt.Errorf("creating: %w", apierrors.NewTooManyRequests("busy", 4)), 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := retryAfter(c.err)
			if got != c.want || ok != (c.want > 0) {
				t.Errorf("got %s, %v", got, ok)
			}
		})
	}
}

func TestLostRacesAreNoFailures(t *testing.T) {
	lost := fmt.Errorf("child: %w", &lostRace{errors.New("conflict")})
	if !onlyLostRaces([]error{lost, lost}) {
		t.Error("two lost races count as a failure")
	}
	if onlyLostRaces([]error{lost, errors.New("invalid")}) {
		t.Error("a failure hides behind a lost race")
	}
}

func TestStateForgetsWhatIsGone(t *testing.T) {
	s := &parentState{uid: "parent"}
	left := compare(map[string]any{}, map[string]any{"a": int64(1)}, true)
	for _, uid := range []types.UID{"parent", "kept", "gone"} {
		s.remember(uid, left)
		s.noteApplied(uid, nil)
	}
	s.prune(func(uid types.UID) bool { return uid == "kept" })
	if len(s.unreachable) != 2 || len(s.applied) != 1 {
		t.Errorf("remembered: %d differences, %d applied", len(s.unreachable), len(s.applied))
	}
	s.failures = 3
	s.forUID("another")
	if s.unreachable != nil || s.applied != nil || s.failures != 3 {
		t.Errorf("a new parent of the name inherits %+v", s)
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"", "1", true}, {"x", "1", false}, {"1", "x", false}} {
		if got := older(c.a, c.b); got != c.want {
			t.Errorf("older(%q, %q) = %v", c.a, c.b, got)
		}
	}
}
