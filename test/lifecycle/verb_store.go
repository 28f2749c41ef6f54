package lifecycle

import (
	"fmt"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// verbStore makes the store answer or not:
//
//	store down [kind=StoreUnreachable] ["message=..."]
//	store up
func (w *world) verbStore(c *command) error {
	switch what := c.word(""); what {
	case "down":
		w.store.Down(&catalog.Error{
			Kind: checkpoint.FailureKind(c.text("kind", string(checkpoint.Unreachable))), Message: c.text("message", "the store does not answer"),
		})
	case "up":
		w.store.Up()
	default:
		return fmt.Errorf("unknown %q", what)
	}
	return nil
}
