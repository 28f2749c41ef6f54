package lifecycle

import (
	"errors"
	"fmt"
	"strings"

	"rtj.dev/rtj/test/world/event"
)

// verbQueue changes the queues, and has Kueue do what follows, but admit:
//
//	queue stop [policy=HoldAndDrain]     the LocalQueue
//	queue start
//	queue create name=default            another LocalQueue
func (w *world) verbQueue(c *command) error {
	var err error
	switch what := c.word(""); what {
	case "create":
		_, err = w.api.Create("administrator", object{
			"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
			"metadata": object{"namespace": namespace, "name": c.text("name", queueName)}, "spec": object{"clusterQueue": clusterQueue},
		})
	case "stop":
		err = w.kueue.StopLocalQueue(namespace, queueName, c.text("policy", "HoldAndDrain"))
	case "start":
		err = w.kueue.StopLocalQueue(namespace, queueName, "None")
	default:
		return fmt.Errorf("unknown %q", what)
	}
	if err != nil {
		return err
	}
	return w.noticeQueues()
}

// noticeQueues has Kueue do what it does of itself, but admit.
func (w *world) noticeQueues() error {
	for range enough {
		name := ""
		w.kueue.Events(func(e event.Event) {
			if name == "" && !e.Fault && !strings.HasPrefix(e.Name, "kueue: admit ") {
				name = e.Name
			}
		})
		if name == "" {
			return nil
		}
		if err := w.kueue.Do(name); err != nil {
			return err
		}
	}
	return errors.New("the queues do not come to rest")
}

// enough is more than Kueue has to do.
const enough = 1000
