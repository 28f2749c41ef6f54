//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/harness"
)

// refusedFor is how long the API server takes no patch of an object: as long as
// the events go on that a change of a job causes, which would cause it again.
const refusedFor = 3 * time.Second

// Before each patch of an object those of it are refused for a while, so that
// every one has to be made again. It runs alone, since it stops the runner.
func TestEveryPatchIsMadeAgain(t *testing.T) {
	toll := newToll(t)
	s := newScene(t, 2)
	s.stepTime = 200 * time.Millisecond
	refusedUntil, made := map[string]time.Time{}, map[string]int{}
	toll.Judge(func(r harness.Request) harness.Verdict {
		if r.Method != http.MethodPatch || !strings.Contains(r.Path, "/namespaces/"+s.Name+"/") {
			return harness.Pass
		}
		until, ok := refusedUntil[r.Path]
		switch now := time.Now(); {
		case !ok:
			refusedUntil[r.Path] = now.Add(refusedFor)
		case now.After(until):
			delete(refusedUntil, r.Path)
			made[r.Path]++
			return harness.Pass
		}
		return harness.Refuse
	})
	pauseAndResume(s)
	toll.Judge(func(harness.Request) harness.Verdict { return harness.Pass })
	for _, path := range []string{"/workloads/job-w1", "/workloads/job-w1/status", "/resumabletrainingjobs/job"} {
		found := false
		for patched := range made {
			found = found || strings.HasSuffix(patched, path)
		}
		if !found {
			t.Errorf("no patch of %s was refused and made again: %v", path, made)
		}
	}
}
