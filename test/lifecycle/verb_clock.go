package lifecycle

import (
	"fmt"
	"strings"
	"time"
)

// verbClock lets time pass:
//
//	clock +30s
func (w *world) verbClock(c *command) error {
	word := c.word("")
	d, err := time.ParseDuration(strings.TrimPrefix(word, "+"))
	if err != nil || d <= 0 || !strings.HasPrefix(word, "+") {
		return fmt.Errorf("want a duration such as +30s, got %q", word)
	}
	w.now = w.now.Add(d)
	return nil
}
