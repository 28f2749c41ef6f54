//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/harness"
)

// Every second patch of each object is refused, so that whatever is patched fails
// once: it is made again, also where nothing else happens that would cause it. It
// runs alone, since it stops the runner.
func TestEveryPatchIsMadeAgain(t *testing.T) {
	toll := newToll(t)
	s := newScene(t, 2)
	s.stepTime = 200 * time.Millisecond
	seen := map[string]int{}
	toll.Judge(func(r harness.Request) harness.Verdict {
		if r.Method != http.MethodPatch || !strings.Contains(r.Path, "/namespaces/"+s.Name+"/") {
			return harness.Pass
		}
		seen[r.Path]++
		if seen[r.Path]%2 == 1 {
			return harness.Refuse
		}
		return harness.Pass
	})
	pauseAndResume(s)
	toll.Judge(func(harness.Request) harness.Verdict { return harness.Pass })
	for _, path := range []string{"/workloads/job-w1", "/workloads/job-w1/status", "/resumabletrainingjobs/job"} {
		found := false
		for seenPath, n := range seen {
			found = found || strings.HasSuffix(seenPath, path) && n > 1
		}
		if !found {
			t.Errorf("no patch of %s was refused and made again: %v", path, seen)
		}
	}
}
