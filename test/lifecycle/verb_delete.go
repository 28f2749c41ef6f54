package lifecycle

import (
	"fmt"
	"strings"

	"rtj.dev/rtj/test/world/apiserver"
)

// byHand signs what a person does.
const byHand = "user"

// verbDelete deletes an object by hand:
//
//	delete rtj                  the job: its finalizer keeps it until it is let go
//	delete JobSet/llama-1
//	delete Job/llama-1-workers-0
func (w *world) verbDelete(c *command) error {
	place := c.word("")
	if place != "rtj" {
		if err := w.remove(place, byHand); err != nil {
			return err
		}
		switch kind, _, _ := strings.Cut(place, "/"); kind {
		case "Job": // its JobSet makes it anew
			w.runCluster()
		case "LocalQueue", "ClusterQueue":
			return w.noticeQueues()
		}
		return nil
	}
	job := w.job()
	if job == nil {
		return fmt.Errorf("there is no job")
	}
	return w.api.Delete(byHand, job.Kind, job.Namespace, job.Name, apiserver.Deletion{})
}
