package lifecycle

import (
	"fmt"

	"rtj.dev/rtj/compose/checkpoint"
)

// verbStore makes the store answer or not:
//
//	store down [kind=StoreUnreachable] ["message=..."]
//	store up
func (w *world) verbStore(c *command) error {
	switch what := c.word(""); what {
	case "down":
		w.store.failure = &checkpoint.Failure{
			Kind:    checkpoint.FailureKind(c.text("kind", string(checkpoint.Unreachable))),
			Message: c.text("message", "the store does not answer"),
		}
	case "up":
		w.store.failure = nil
	default:
		return fmt.Errorf("unknown %q", what)
	}
	return nil
}
