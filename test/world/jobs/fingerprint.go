package jobs

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// Hash takes up the state of a world; equal worlds take up the same.
type Hash interface {
	Text(string)
	Int(int64)
	Bool(bool)
	Time(time.Time)
	// Age takes up a time whose distance from now counts up to an age.
	Age(t time.Time, upTo time.Duration, pool string)
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
		h.Age(p.syncedAt, refreshPeriod, "")
		h.Time(p.slowUntil)
		h.Time(p.killAt)
		h.Int(int64(p.given))
	}
	for i := range c.decisions {
		c.takeDecision(h, &c.decisions[i])
	}
	for _, name := range slices.Sorted(maps.Keys(c.made)) {
		if job := c.find("Job", name); job != nil {
			h.Text(name)
			h.Int(int64(c.made[name]))
		}
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

func (c *Cluster) find(kind, key string) *apiserver.Object {
	namespace, name, _ := strings.Cut(key, "/")
	return c.API.Get(kind, namespace, name)
}

// takeDecision takes up what is still to be written of a JobSet. Of one that is another
// by now the status is not.
func (c *Cluster) takeDecision(h Hash, d *decision) {
	if d.plan.writes() == 0 && !c.current(*d) {
		return
	}
	h.JSON(d.of.UID)
	h.Bool(c.current(*d))
	h.Bool(d.plan.refused)
	for _, j := range d.plan.create {
		h.Int(int64(j.replicated))
		h.Int(j.index)
	}
	for _, jobs := range [][]*job{d.plan.suspend, d.plan.resume, d.plan.delete} {
		h.Int(int64(len(jobs)))
		for _, j := range jobs {
			h.JSON(j.UID)
			h.Bool(c.API.Get("Job", j.Namespace, j.Name) == j.Object)
		}
	}
	text, err := json.Marshal(d.plan.status.body())
	if err != nil {
		panic(err) // JSON values
	}
	h.JSON(string(text))
}
