package lifecycle

import (
	"fmt"

	"rtj.dev/rtj/test/world/kueue"
)

// verbKueue has Kueue do something with the newest Workload, as its own rules do it:
//
//	kueue reserve                            quota, and admission checks pending
//	kueue admit                              quota and admission
//	kueue evict reason=Preempted
//	kueue deactivate [cause=RequeuingLimitExceeded]
//	kueue activate
//	kueue rest                               whatever it does of itself
func (w *world) verbKueue(c *command) error {
	what := c.word("")
	if what == "rest" {
		return w.kueue.Settle()
	}
	o, err := w.newest("Workload")
	if err != nil {
		return err
	}
	switch what {
	case "reserve":
		return w.kueue.Reserve(o.Namespace, o.Name)
	case "admit":
		return w.kueue.Admit(o.Namespace, o.Name)
	case "evict":
		return w.kueue.Evict(o.Namespace, o.Name, c.text("reason", kueue.Preempted))
	case "deactivate":
		if cause := c.text("cause", ""); cause != "" {
			return w.kueue.Evict(o.Namespace, o.Name, kueue.Deactivated+"DueTo"+cause)
		}
		return w.kueue.Deactivate(o.Namespace, o.Name)
	case "activate":
		return w.kueue.Activate(o.Namespace, o.Name)
	default:
		return fmt.Errorf("unknown %q", what)
	}
}
