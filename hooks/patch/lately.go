package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// Made remembers what was made lately. A decision upon a stale cache wants a
// patch again, which would cost a request and change nothing. The zero value is
// ready; it may be used concurrently.
type Made struct {
	mu sync.Mutex
	at map[mark]time.Time
}

// Clone returns a copy that goes on by itself.
func (d *Made) Clone() *Made {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Made{at: maps.Clone(d.at)}
}

// Lately are the patches that still count as made lately, as texts of a fixed order,
// for those who compare states.
func (d *Made) Lately(now time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	for m, at := range d.at {
		if now.Sub(at) < madeLasts {
			list = append(list, fmt.Sprintf(`%s %s %s/%s resourceVersion":"%s %s %s`, m.job, m.resource, m.namespace, m.name, m.version, m.body, at.UTC().Format(time.RFC3339Nano)))
		}
	}
	slices.Sort(list)
	return list
}

// mark tells patches apart: one with a resourceVersion uses that state of its
// object up, another one is only the same if all of it is.
type mark struct {
	job                       types.UID
	resource, namespace, name string
	version, body             string
}

func markOf(j Job, p *compose.Patch) mark {
	m := mark{job: j.UID, resource: p.Target.Resource, namespace: p.Target.Namespace, name: p.Target.Name}
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

func (d *Made) lately(m mark, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.at[m]
	return ok && now.Sub(at) < madeLasts
}

func (d *Made) remember(m mark, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil {
		d.at = map[mark]time.Time{}
	}
	for old, at := range d.at {
		if now.Sub(at) >= madeLasts {
			delete(d.at, old)
		}
	}
	d.at[m] = now
}
