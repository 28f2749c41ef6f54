package lifecycle

import (
	"fmt"
	"maps"
	"strconv"
)

// verbPods changes pods that the Jobs do not show:
//
//	pods gone [attempt=N]            none is left (of the attempt)
//	pods linger attempt=N [count=1]  some are still there
func (w *world) verbPods(c *command) error {
	what := c.word("")
	attempt := c.text("attempt", "")
	switch what {
	case "gone":
		maps.DeleteFunc(w.related, func(_ string, o object) bool {
			return o["kind"] == "Pod" && (attempt == "" || below(o, "metadata", "labels")["training.rtj.dev/attempt"] == attempt)
		})
		return nil
	case "linger":
		n, err := c.number("count", 1)
		if err != nil {
			return err
		}
		w.showPods(object{"metadata": object{
			"name": fmt.Sprintf("%v-%s-workers-0", metadata(w.parent)["name"], attempt),
			"labels": object{
				"jobset.sigs.k8s.io/replicatedjob-name": "workers",
				"jobset.sigs.k8s.io/job-index":          "0",
				"training.rtj.dev/uid":                  metadata(w.parent)["uid"],
				"training.rtj.dev/attempt":              attempt,
			},
		}}, n)
		return nil
	}
	return fmt.Errorf("unknown %q", what)
}

// showPods makes the pods of a Job be so many.
func (w *world) showPods(job object, count int64) {
	name := metadata(job)["name"].(string)
	for i := int64(0); ; i++ {
		o := object{"kind": "Pod", "metadata": object{"name": fmt.Sprintf("%s-%d", name, i)}, "status": object{"phase": "Running"}}
		_, there := w.related[id(o)]
		switch {
		case i < count && !there:
			labels := maps.Clone(below(job, "metadata", "labels"))
			labels["batch.kubernetes.io/job-completion-index"] = strconv.FormatInt(i, 10)
			metadata(o)["labels"] = labels
			w.create(o)
			w.related[id(o)] = o
		case i >= count && there:
			delete(w.related, id(o))
		case i >= count:
			return
		}
	}
}

// isLeader reports whether the hooks get to see a pod.
func isLeader(o object) bool {
	labels := below(o, "metadata", "labels")
	return labels["jobset.sigs.k8s.io/job-index"] == "0" && labels["batch.kubernetes.io/job-completion-index"] == "0"
}
