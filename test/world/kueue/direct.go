package kueue

import (
	"errors"
	"fmt"
	"strings"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// settleSteps is more than Kueue ever does of itself.
const settleSteps = 1000

func (k *Kueue) get(namespace, name string) (*apiserver.Object, error) {
	o := k.API.Get("Workload", namespace, name)
	if o == nil {
		return nil, fmt.Errorf("the Workload %s/%s does not exist", namespace, name)
	}
	return o, nil
}

// Do makes the event of that name happen; it is an error if it cannot happen now.
func (k *Kueue) Do(name string) error {
	var offered []string
	var do func()
	k.Events(func(e event.Event) {
		offered = append(offered, e.Name)
		if e.Name == name {
			do = e.Do
		}
	})
	if do == nil {
		return fmt.Errorf("%q cannot happen now; what can: %s", name, strings.Join(offered, ", "))
	}
	do()
	return nil
}

// Settle does all that Kueue does of itself until nothing is left; checks and nodes do
// nothing in it.
func (k *Kueue) Settle() error {
	for range settleSteps {
		var next *event.Event
		k.Events(func(e event.Event) {
			if next == nil && !e.Fault && strings.HasPrefix(e.Name, by+": ") {
				next = &e
			}
		})
		if next == nil {
			return nil
		}
		next.Do()
	}
	return errors.New("Kueue does not come to rest")
}

// Reserve has quota reserved for a Workload, and Admit has it admitted, as soon as
// Kueue's own rules give it any: an error says why they do not.
func (k *Kueue) Reserve(namespace, name string) error {
	return k.until(namespace, name, quotaReserved, nil)
}

// Admit is Reserve, with every admission check Ready.
func (k *Kueue) Admit(namespace, name string) error {
	return k.until(namespace, name, admitted, func(o *apiserver.Object) error {
		for _, c := range objects(o.At("status", "admissionChecks")) {
			if check, _ := c["name"].(string); c["state"] != checkReady {
				return k.Check(namespace, name, check, checkReady)
			}
		}
		return errors.New("nothing admits it")
	})
}

// until settles, and helps where that is not enough.
func (k *Kueue) until(namespace, name, condition string, help func(*apiserver.Object) error) error {
	for range settleSteps {
		if err := k.Settle(); err != nil {
			return err
		}
		o, err := k.get(namespace, name)
		if err != nil {
			return err
		}
		if o.True(condition) {
			return nil
		}
		if !o.True(quotaReserved) || help == nil {
			c := o.Condition(quotaReserved)
			return fmt.Errorf("the Workload %s gets no quota: %v: %v", o.Key(), c["reason"], c["message"])
		}
		if err := help(o); err != nil {
			return err
		}
	}
	return errors.New("Kueue does not come to rest")
}

// Evict evicts a Workload that holds quota, for one of the reasons above, or one that
// begins with DeactivatedDueTo, which deactivates it too.
func (k *Kueue) Evict(namespace, name, reason string) error {
	k.observe()
	o, err := k.get(namespace, name)
	if err != nil {
		return err
	}
	if !o.True(quotaReserved) {
		return fmt.Errorf("the Workload %s holds no quota", o.Key())
	}
	if o.True(evicted) {
		return fmt.Errorf("the Workload %s is evicted already", o.Key())
	}
	if cause, ok := strings.CutPrefix(reason, Deactivated+"DueTo"); ok {
		return k.deactivateFor(o, cause)
	}
	message := map[string]string{
		Preempted:           "Preempted to accommodate a workload due to prioritization in the ClusterQueue",
		PodsReadyTimeout:    "Exceeded the PodsReady timeout " + o.Key(),
		AdmissionCheck:      "Evicted due to AdmissionCheck in Retry state",
		LocalQueueStopped:   "The LocalQueue is stopped",
		ClusterQueueStopped: "The ClusterQueue is stopped",
		NodeFailures:        "Workload was evicted as there was no replacement for unhealthy node(s)",
		Deactivated:         "The workload is deactivated",
	}[reason]
	if message == "" {
		return fmt.Errorf("Kueue evicts nothing for %q", reason)
	}
	var prepare func(*status)
	switch reason {
	case Preempted:
		prepare = func(s *status) { s.set(preempted, "True", "InClusterQueue", message, 0) }
	case Deactivated:
		return k.Deactivate(namespace, name)
	}
	return k.apply(o, k.eviction(o, reason, message, prepare))
}

// deactivateFor is how Kueue itself deactivates: a target, then spec.active, then the
// eviction.
func (k *Kueue) deactivateFor(o *apiserver.Object, cause string) error {
	s := k.status(o)
	s.set(deactivationTarget, "True", cause, cause, o.Generation)
	if err := k.apply(o, s); err != nil {
		return err
	}
	for _, what := range []string{"deactivate", "evict"} {
		k.reconcileNow(o.Namespace, o.Name, what)
	}
	return nil
}

// Deactivate is what a person does: spec.active is false. Kueue evicts, and counts the
// quota as free.
func (k *Kueue) Deactivate(namespace, name string) error {
	if err := k.setActiveSpec(namespace, name, false); err != nil {
		return err
	}
	k.reconcileNow(namespace, name, "evict")
	return nil
}

// Activate sets spec.active to true.
func (k *Kueue) Activate(namespace, name string) error {
	return k.setActiveSpec(namespace, name, true)
}

func (k *Kueue) setActiveSpec(namespace, name string, is bool) error {
	_, err := k.API.Patch("user", "Workload", namespace, name, map[string]any{"spec": map[string]any{"active": is}}, "")
	k.observe()
	return err
}

// StopLocalQueue and StopClusterQueue set the stop policy: None, Hold or HoldAndDrain.
func (k *Kueue) StopLocalQueue(namespace, name, policy string) error {
	return k.stop("LocalQueue", namespace, name, policy)
}

// StopClusterQueue is StopLocalQueue for a ClusterQueue.
func (k *Kueue) StopClusterQueue(name, policy string) error {
	return k.stop("ClusterQueue", "", name, policy)
}

func (k *Kueue) stop(kind, namespace, name, policy string) error {
	_, err := k.API.Patch("admin", kind, namespace, name, map[string]any{"spec": map[string]any{"stopPolicy": policy}}, "")
	k.observe()
	return err
}

// Used is the quota of a resource in a flavor that Kueue counts as held in a
// ClusterQueue, in thousandths of CPUs or whole units.
func (k *Kueue) Used(queue, flavor, resource string) int64 {
	k.observe()
	return sum(k.held(queue))[slot{flavor, resource}]
}
