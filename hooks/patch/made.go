package patch

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/compose"
)

// madeLasts is how long a patch is remembered: longer than caches take to show it.
const madeLasts = 10 * time.Second

// errMade is a patch that was decided upon a cache which does not show yet that
// it was made.
var errMade = fmt.Errorf("%w: this patch, or another of the same state, was made just now", errOlder)

// made remembers what was made lately. A decision upon a stale cache wants a
// patch again, which would cost a request and change nothing.
type made struct {
	mu sync.Mutex
	at map[mark]time.Time
}

// mark tells patches apart: one with a resourceVersion uses that state of its
// object up, another one is only the same if all of it is.
type mark struct {
	job                       types.UID
	resource, namespace, name string
	version, body             string
}

func markOf(j job, p *compose.Patch) mark {
	m := mark{job: j.uid, resource: p.Target.Resource, namespace: p.Target.Namespace, name: p.Target.Name}
	var body struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if json.Unmarshal(p.Body, &body) == nil && body.Metadata.ResourceVersion != "" {
		m.version = body.Metadata.ResourceVersion
	} else {
		m.body = string(p.Body)
	}
	return m
}

func (d *made) lately(m mark) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.at[m]
	return ok && time.Since(at) < madeLasts
}

func (d *made) remember(m mark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil {
		d.at = map[mark]time.Time{}
	}
	for old, at := range d.at {
		if time.Since(at) >= madeLasts {
			delete(d.at, old)
		}
	}
	d.at[m] = time.Now()
}
