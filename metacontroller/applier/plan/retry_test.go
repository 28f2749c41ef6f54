package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestBackoffDoublesWithinBounds(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: firstBackoff, 1: firstBackoff, 2: 2 * firstBackoff, 5: 16 * firstBackoff, 11: maxBackoff, 1 << 30: maxBackoff,
	} {
		for range 100 {
			if got := backoff(failures, spread); got < want || got > want+want/5 {
				t.Errorf("after %d failures: %s, want %s and at most a fifth more", failures, got, want)
			}
		}
	}
}

// asked is an error that says when to try again.
type asked struct{ delay time.Duration }

func (a *asked) Error() string             { return "429" }
func (a *asked) RetryAfter() time.Duration { return a.delay }

// spread is what the applier does to delays.
func spread(delay time.Duration) time.Duration {
	return delay + time.Duration(rand.Float64()*float64(delay)/5)
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
		"asked by a hook":       {fmt.Errorf("sync hook: %w", &asked{7 * time.Second}), 20, 7 * time.Second, true},
		"less than a second":    {&asked{time.Millisecond}, 1, time.Second, true},
		"never at once":         {&asked{0}, 1, time.Second, true},
		"in the past":           {&asked{-time.Hour}, 1, time.Second, true},
		"not said, again":       {&asked{0}, 6, 32 * firstBackoff, true},
		"asked by method":       {errors.Join(errors.New("y"), slowDown{3 * time.Second}), 1, 3 * time.Second, true},
		"asked by the server":   {fmt.Errorf("creating: %w", apierrors.NewTooManyRequests("busy", 4)), 1, 4 * time.Second, true},
		"the most that is said": {&asked{time.Hour}, 1, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				delay, pause := delayAfter(c.err, c.failures, spread)
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
	lost := fmt.Errorf("child: %w", &LostRace{errors.New("conflict")})
	if !onlyLostRaces([]error{lost, lost}) {
		t.Error("two lost races count as a failure")
	}
	if onlyLostRaces([]error{lost, errors.New("invalid")}) {
		t.Error("a failure hides behind a lost race")
	}
}
