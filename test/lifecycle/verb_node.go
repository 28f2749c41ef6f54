package lifecycle

import "fmt"

// nodeName is the node that pods run on. There is another one, for when it is lost.
const nodeName = "node-a"

// verbNode is what becomes of the node:
//
//	node lost        its kubelet is silent, and the processes go on
//	node back
func (w *world) verbNode(c *command) error {
	switch what := c.word(""); what {
	case "lost":
		return w.cluster.LoseNode(nodeName)
	case "back":
		if err := w.cluster.ReturnNode(nodeName); err != nil {
			return err
		}
		w.runCluster()
		return nil
	default:
		return fmt.Errorf("unknown %q", what)
	}
}
