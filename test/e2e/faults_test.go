//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/faultproxy"
)

// envFaultSeed replays: seeds of the fault proxy, separated by commas.
const envFaultSeed = "E2E_FAULT_SEED"

// faultSeeds are those of every run.
var faultSeeds = []uint64{1}

// throughFaults are the stories that end right whatever happens to requests.
var throughFaults = map[string]func(*scene){
	"PreemptAndResume": preemptAndResume,
	"PauseAndResume":   pauseAndResume,
	"CrashAndRetry":    crashAndRetry,
	"Deletion":         deletionWhileRunning,
	"Deactivation":     deactivation,
	"JobSetDeleted":    jobSetDeleted,
}

// On a bad day between the runner and the API server, with a runner that crashes
// now and then, every story ends as it does on a good one. It runs alone, since it
// stops the runner.
func TestFaults(t *testing.T) {
	for _, seed := range seeds(t) {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			faults, err := world.NewFaults(t.Context(), runner, seed)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := faults.Leave(context.Background()); err != nil {
					t.Error(err)
				}
				fmt.Println("faults:", faults)
				for _, fault := range slices.Sorted(maps.Keys(faultproxy.Bad())) {
					if faults.Counts()[fault] == 0 {
						t.Errorf("%s has not happened, so nothing is known about it", fault)
					}
				}
			})
			faults.Set(faultproxy.Bad())
			for name, story := range throughFaults {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := newScene(t, 2)
					s.stepTime = slowStep()
					runtimes := s.WatchRuntimes(t.Context())
					story(s)
					for _, moment := range runtimes() {
						t.Error("two attempts may have run at once:", moment)
					}
				})
			}
			t.Run("Crash", func(t *testing.T) {
				t.Parallel()
				for range 3 {
					time.Sleep(15 * time.Second)
					if err := faults.Crash(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// slowStep has training go on while the runner is away, for about as long as it
// takes to start it again. Loss curves do not depend on it.
func slowStep() time.Duration {
	if runner == embedded {
		return 150 * time.Millisecond
	}
	return 250 * time.Millisecond
}

func seeds(t *testing.T) []uint64 {
	t.Helper()
	given := os.Getenv(envFaultSeed)
	if given == "" {
		return faultSeeds
	}
	var all []uint64
	for _, text := range strings.Split(given, ",") {
		seed, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", envFaultSeed, err)
		}
		all = append(all, seed)
	}
	return all
}
