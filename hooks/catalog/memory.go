package catalog

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// runCache keeps the memory of the runs that were read most recently, within a
// number of runs and of bytes.
type runCache struct {
	mu       sync.Mutex
	maxRuns  int
	maxBytes int64
	bytes    int64
	order    *list.List // of *runMemory, the most recent first
	byKey    map[string]*list.Element
}

func newRunCache(runs int, bytes int64) *runCache {
	return &runCache{maxRuns: runs, maxBytes: bytes, order: list.New(), byKey: map[string]*list.Element{}}
}

// acquire returns the memory of a run; it must be released.
func (c *runCache) acquire(key string) *runMemory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byKey[key]; ok {
		c.order.MoveToFront(at)
		m := at.Value.(*runMemory)
		m.users++
		return m
	}
	m := newRunMemory(key)
	m.users = 1
	c.byKey[key] = c.order.PushFront(m)
	return m
}

// release gives the memory back and forgets the runs that are too many. Those
// in use stay.
func (c *runCache) release(m *runMemory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.users--
	size := m.size.Load()
	c.bytes += size - m.counted
	m.counted = size
	for at := c.order.Back(); at != nil && (c.order.Len() > c.maxRuns || c.bytes > c.maxBytes); {
		oldest, before := at.Value.(*runMemory), at.Prev()
		if oldest.users == 0 {
			c.order.Remove(at)
			delete(c.byKey, oldest.key)
			c.bytes -= oldest.counted
		}
		at = before
	}
}

// runMemory is what is known of a run between two readings. Whoever holds its
// lock owns all but size, users and counted.
type runMemory struct {
	key  string
	held chan struct{}
	// begun counts the readings that were begun.
	begun atomic.Int64
	size  atomic.Int64
	// users and counted belong to the runCache.
	users   int
	counted int64

	last       *finished
	manifests  map[string]*knownManifest
	starts     map[int32]document[checkpoint.Start]
	progress   map[int32]document[checkpoint.Progress]
	results    map[int32]document[checkpoint.Result]
	quarantine map[string]document[checkpoint.Quarantine]
}

func newRunMemory(key string) *runMemory {
	return &runMemory{
		key: key, held: make(chan struct{}, 1),
		manifests:  map[string]*knownManifest{},
		starts:     map[int32]document[checkpoint.Start]{},
		progress:   map[int32]document[checkpoint.Progress]{},
		results:    map[int32]document[checkpoint.Result]{},
		quarantine: map[string]document[checkpoint.Quarantine]{},
	}
}

func (m *runMemory) lock(ctx context.Context) error {
	select {
	case m.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *runMemory) unlock() { <-m.held }

// document is a record as it was read: value is nil when it is unusable, and
// then problem says why.
type document[T any] struct {
	etag    string
	value   *T
	problem string
}

// knownManifest is a manifest and what is known about its objects.
type knownManifest struct {
	etag     string
	manifest checkpoint.Manifest
	// indexes is kept from its reading to its first check only.
	indexes []checkpoint.IndexRef

	depth       depth
	fingerprint [32]byte
}

// depth is how far the objects of a checkpoint were compared.
type depth int

const (
	unchecked depth = iota
	// byListing: index objects, number and bytes of the data objects.
	byListing
	// byIndexes: every object.
	byIndexes
)

// incompleteAge is how long the verdict that a checkpoint is incomplete is
// trusted: its objects may still become visible, where a cache lies before the
// store.
const incompleteAge = 30 * time.Second

// measure updates the size: what the maps hold, roughly.
func (m *runMemory) measure() {
	const (
		perManifest = 700
		perRecord   = 400
		perEntry    = 96
	)
	size := int64(0)
	for _, known := range m.manifests {
		size += perManifest + int64(len(known.manifest.Incomplete))
		size += perEntry * int64(len(known.manifest.Identity)+len(known.manifest.Components))
		if known.manifest.Defect != nil {
			size += int64(len(known.manifest.Defect.Message))
		}
	}
	records := len(m.starts) + len(m.progress) + len(m.results) + len(m.quarantine)
	size += perRecord * int64(records)
	if m.last != nil {
		size += perManifest * int64(len(m.last.snapshot.Manifests))
	}
	m.size.Store(size)
}
