package kueue

import (
	"slices"

	"rtj.dev/rtj/test/world/apiserver"
)

// Hash takes up the state of a world; equal worlds take up the same.
type Hash interface {
	Text(string)
	Int(int64)
	Bool(bool)
	JSON(string)
	Object(*apiserver.Object)
}

// Fingerprint takes up what Kueue remembers: where each Workload is in its queue, what
// the scheduler counts for it, and what is still to be written.
func (k *Kueue) Fingerprint(h Hash) {
	k.observe()
	h.Int(int64(len(k.workloads)))
	for i := range k.workloads {
		w := &k.workloads[i]
		h.Int(int64(w.place))
		h.Bool(w.counted != nil)
		if w.counted != nil {
			h.Object(w.counted.object)
		}
		w.owns(h)
	}
	for i := range k.queues {
		q := &k.queues[i]
		h.JSON(q.sticky)
		h.Bool(q.retry)
		for _, shape := range slices.Sorted(slices.Values(q.hopeless)) {
			h.JSON(shape)
		}
	}
	for _, class := range k.rewrite {
		h.Text(class)
	}
	for i := range k.writes {
		h.Text(k.writes[i].what)
		h.Object(k.writes[i].view)
	}
}

// owns takes up what of the status is still as Kueue sent it: it would take that away.
func (w *workload) owns(h Hash) {
	for _, key := range fields {
		value, ok := w.sent[key]
		h.Bool(ok && apiserver.Same(value, w.seen.At("status", key)))
	}
	for _, kind := range managed {
		c := conditionIn(w.sent["conditions"], kind)
		h.Bool(c != nil && apiserver.Same(c, w.seen.Condition(kind)))
	}
}
