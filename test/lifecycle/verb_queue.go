package lifecycle

import (
	"errors"
	"fmt"
	"strings"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// verbQueue changes the queues, and has Kueue do what follows, but admit:
//
//	queue stop [policy=HoldAndDrain]     the LocalQueue
//	queue start
//	queue create name=default            another LocalQueue
//	queue check name=capacity            an AdmissionCheck of the ClusterQueue
func (w *world) verbQueue(c *command) error {
	var err error
	switch what := c.word(""); what {
	case "create":
		_, err = w.api.Create("administrator", object{
			"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
			"metadata": object{"namespace": namespace, "name": c.text("name", queueName)}, "spec": object{"clusterQueue": clusterQueue},
		})
	case "check":
		err = w.addCheck(c.text("name", "check"))
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

// addCheck has the ClusterQueue ask for a check, whose controller works.
func (w *world) addCheck(name string) error {
	o, err := w.api.Create("administrator", object{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": object{"name": name}, "spec": object{"controllerName": "example.com/checks"},
	})
	if err != nil {
		return err
	}
	_, err = w.api.Update("administrator", o, apiserver.Status, func(body map[string]any) {
		apiserver.SetCondition(body, w.now, "Active", "True", "Active", "The check is active")
	})
	if err != nil {
		return err
	}
	_, err = w.api.Patch("administrator", "ClusterQueue", "", clusterQueue, object{"spec": object{
		"admissionChecksStrategy": object{"admissionChecks": []any{object{"name": name}}},
	}}, "")
	return err
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
