package lifecycle

import (
	"fmt"

	"rtj.dev/rtj/api/v1beta1"
)

// verbPods ends pods, whatever they belong to:
//
//	pods gone [attempt=N]            all (of the attempt)
func (w *world) verbPods(c *command) error {
	attempt := c.text("attempt", "")
	if what := c.word(""); what != "gone" {
		return fmt.Errorf("unknown %q", what)
	}
	w.runCluster()
	for _, o := range w.api.List("Pod") {
		if attempt == "" || o.Label(v1beta1.LabelAttempt) == attempt {
			w.workers.exit(o.UID, 0)
		}
	}
	w.runCluster()
	return nil
}
