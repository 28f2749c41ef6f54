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

func TestDelayAfterAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		failures int
		// want is the least delay; a fifth of it may be added.
		want time.Duration
		// alsoEvents: events wait as long.
		alsoEvents bool
	}{
		"nothing asked":         {errors.New("x"), 2, 2 * firstBackoff, true},
		"nothing asked, long":   {errors.New("x"), 9, 256 * firstBackoff, false},
		"asked by a hook":       {fmt.Errorf("sync hook: %w", &RetryAfter{Delay: 7 * time.Second, Err: errors.New("x")}), 20, 7 * time.Second, true},
		"less than a second":    {&RetryAfter{Delay: time.Millisecond, Err: errors.New("429")}, 1, time.Second, true},
		"never at once":         {&RetryAfter{Err: errors.New("429")}, 1, time.Second, true},
		"in the past":           {&RetryAfter{Delay: -time.Hour, Err: errors.New("429")}, 1, time.Second, true},
		"not said, again":       {&RetryAfter{Err: errors.New("429")}, 6, 32 * firstBackoff, true},
		"asked by method":       {errors.Join(errors.New("y"), slowDown{3 * time.Second}), 1, 3 * time.Second, true},
		"asked by the server":   {fmt.Errorf("creating: %w", apierrors.NewTooManyRequests("busy", 4)), 1, 4 * time.Second, true},
		"the most that is said": {&RetryAfter{Delay: time.Hour, Err: errors.New("429")}, 1, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				delay, pause := delayAfter(c.err, c.failures)
				if delay < c.want || delay > c.want+c.want/5 {
					t.Errorf("delay %s, want %s and at most a fifth more", delay, c.want)
				}
				if (pause == delay) != c.alsoEvents {
					t.Errorf("pause %s, delay %s", pause, delay)
				}
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
	s := newParentState()
	s.forUID("parent")
	left := compare(map[string]any{}, map[string]any{"a": int64(1)}, true)
	for _, uid := range []types.UID{"parent", "kept", "gone"} {
		s.remember(uid, left)
		s.noteApplied(uid, nil)
	}
	s.prune(map[types.UID]bool{"parent": true, "kept": true})
	if n, _ := s.recorded(); n != 2 || s.knows("gone", left) || !s.knows("kept", left) {
		t.Errorf("%d objects are remembered", n)
	}
	s.failures = 3
	s.forUID("another")
	if n, _ := s.recorded(); n > 0 || s.failures != 3 {
		t.Errorf("a new parent of the name inherits %d records, and has failed %d times", n, s.failures)
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
