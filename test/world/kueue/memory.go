package kueue

import (
	"fmt"
	"strings"
)

// Memory is what Kueue remembers beside what the API server has, as text: two that
// live in equal worlds and remember the same do the same.
func (k *Kueue) Memory() string {
	k.observe()
	var b strings.Builder
	for _, w := range k.workloads {
		fmt.Fprintf(&b, "%s:%d", w.seen.UID, w.place)
		if h := w.counted; h != nil {
			fmt.Fprintf(&b, " %s@%d", h.queue, h.object.Version)
		}
		for _, key := range fields {
			fmt.Fprintf(&b, " %v", w.sent[key])
		}
		b.WriteByte('\n')
	}
	for _, q := range k.queues {
		fmt.Fprintf(&b, "%s sticky=%s retry=%v hopeless=%q\n", q.seen.Name, q.sticky, q.retry, q.hopeless)
	}
	fmt.Fprintf(&b, "rewrite=%q\n", k.rewrite)
	for _, w := range k.writes {
		fmt.Fprintf(&b, "%s of %d\n", w.what, w.view.Version)
	}
	return b.String()
}
