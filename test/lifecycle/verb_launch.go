package lifecycle

import "fmt"

// verbLaunch is what the API server says to the creation of a JobSet. While it is
// refused, none is created:
//
//	launch refused "message=exceeded quota"
//	launch accepted
func (w *world) verbLaunch(c *command) error {
	switch what := c.word(""); what {
	case "refused":
		w.refusal = c.text("message", "exceeded quota")
	case "accepted":
		w.refusal = ""
	default:
		return fmt.Errorf("unknown %q", what)
	}
	return nil
}
