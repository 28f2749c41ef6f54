package lifecycle

import "fmt"

// verbLaunch is whether a ResourceQuota forbids another JobSet:
//
//	launch refused
//	launch accepted
func (w *world) verbLaunch(c *command) error {
	switch what := c.word(""); what {
	case "refused":
		return w.cluster.Refuse(namespace, "JobSet")
	case "accepted":
		return w.cluster.Permit(namespace)
	default:
		return fmt.Errorf("unknown %q", what)
	}
}
