package lifecycle

import "fmt"

// verbQueue changes the queues:
//
//	queue stop [policy=HoldAndDrain]     the LocalQueue
//	queue start
//	queue create name=default            another LocalQueue
func (w *world) verbQueue(c *command) error {
	what := c.word("")
	if what == "create" {
		name := c.text("name", "team-a")
		o := object{"kind": "LocalQueue", "metadata": object{"name": name}, "spec": object{"clusterQueue": "cluster"}}
		w.setCondition(o, "Active", "True", "Ready", "")
		w.related[id(o)] = o
		return nil
	}
	queue := w.related["LocalQueue/team-a"]
	if queue == nil {
		return fmt.Errorf("there is no LocalQueue team-a")
	}
	switch what {
	case "stop":
		below(queue, "spec")["stopPolicy"] = c.text("policy", "HoldAndDrain")
		w.setCondition(queue, "Active", "False", "StoppedByUser", "LocalQueue is stopped")
	case "start":
		below(queue, "spec")["stopPolicy"] = "None"
		w.setCondition(queue, "Active", "True", "Ready", "")
	default:
		return fmt.Errorf("unknown %q", what)
	}
	return nil
}
