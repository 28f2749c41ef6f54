package lifecycle

import "fmt"

// verbDelete deletes an object by hand:
//
//	delete rtj                  the job: its finalizer keeps it until it is let go
//	delete JobSet/llama-1
//	delete LocalQueue/team-a
func (w *world) verbDelete(c *command) error {
	place := c.word("")
	if place == "rtj" {
		if w.parent == nil {
			return fmt.Errorf("there is no job")
		}
		metadata(w.parent)["deletionTimestamp"] = w.timestamp()
		w.touch(w.parent)
		return nil
	}
	switch {
	case w.children[place] != nil:
		w.removeChild(place)
	case w.related[place] != nil:
		delete(w.related, place)
	default:
		return fmt.Errorf("there is no %s", place)
	}
	return nil
}
