package jobs

import (
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// Hash takes up the state of a world; equal worlds take up the same.
type Hash interface {
	Text(string)
	Int(int64)
	Bool(bool)
	Time(time.Time)
	JSON(string)
	Object(*apiserver.Object)
}

// Fingerprint takes up what is not in the API server: processes, lost nodes, and what
// was decided and is not written yet.
func (c *Cluster) Fingerprint(h Hash) {
	h.Int(int64(len(c.processes)))
	for i := range c.processes {
		p := &c.processes[i]
		h.JSON(p.uid)
		h.Text(p.node)
		h.JSON(p.control)
		h.JSON(p.notice)
		for _, is := range []bool{p.started, p.unpullable, p.killed, p.evicted, p.outOfMemory} {
			h.Bool(is)
		}
		for _, at := range []time.Time{p.syncedAt, p.slowUntil, p.killAt} {
			h.Time(at)
		}
		h.Int(int64(p.given))
	}
	for _, n := range c.lostNodes {
		h.Text(n.name)
		h.Time(n.since)
		h.Object(n.node)
	}
	for _, n := range c.goneNodes {
		h.Text(n.name)
		h.Time(n.since)
	}
}
