package manager

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Before it runs nothing is ready, also where there will be nothing to wait for.
func TestNotReadyBeforeItRuns(t *testing.T) {
	for want, fromCluster := range map[string]bool{"no CompositeController is started yet": false, "are not listed yet": true} {
		m, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, FromCluster: fromCluster})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Ready(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
