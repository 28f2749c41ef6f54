package world

import "time"

// clock is the time of a world.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// epoch is when every world begins.
var epoch = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
