package catalog

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog/catalogtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// memoryStore is a store whose requests are counted and can be made to fail.
type memoryStore struct {
	mu      sync.Mutex
	objects map[string][]byte
	lists   int
	gets    []string
	// before is called for every request, without the lock held.
	before func(ctx context.Context, op, key string) error
}

func newMemoryStore() *memoryStore { return &memoryStore{objects: map[string][]byte{}} }

func (m *memoryStore) put(key string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = bytes.Clone(data)
}

// remove deletes the objects whose key holds the text.
func (m *memoryStore) remove(part string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.objects, func(key string, _ []byte) bool { return strings.Contains(key, part) })
}

// change replaces the bytes of the one object whose key holds the text.
func (m *memoryStore) change(t *testing.T, part string, change func([]byte) []byte) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := 0
	for key, data := range m.objects {
		if strings.Contains(key, part) {
			m.objects[key] = change(bytes.Clone(data))
			changed++
		}
	}
	if changed != 1 {
		t.Fatalf("%d objects have %q in their key", changed, part)
	}
}

// requests returns what was asked for since it was called last.
func (m *memoryStore) requests() (lists int, gets []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lists, gets = m.lists, m.gets
	m.lists, m.gets = 0, nil
	slices.Sort(gets)
	return lists, gets
}

func (m *memoryStore) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := m.enter(ctx, "LIST", prefix); err != nil {
			yield(Object{}, err)
			return
		}
		m.mu.Lock()
		m.lists++
		var found []Object
		for key, data := range m.objects {
			if strings.HasPrefix(key, prefix) {
				found = append(found, Object{Key: key, Bytes: int64(len(data)), ETag: catalogtest.ETag(data), Modified: noon})
			}
		}
		m.mu.Unlock()
		slices.SortFunc(found, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
		for _, o := range found {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (m *memoryStore) Get(ctx context.Context, key string, maxBytes int64) ([]byte, Object, error) {
	if err := m.enter(ctx, "GET", key); err != nil {
		return nil, Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gets = append(m.gets, key)
	data, ok := m.objects[key]
	if !ok {
		return nil, Object{}, ErrNotExist
	}
	o := Object{Key: key, Bytes: int64(len(data)), ETag: catalogtest.ETag(data), Modified: noon}
	if o.Bytes > maxBytes {
		return nil, o, &TooLargeError{o.Bytes, maxBytes}
	}
	return bytes.Clone(data), o, nil
}

func (m *memoryStore) enter(ctx context.Context, op, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	if before != nil {
		return before(ctx, op, key)
	}
	return nil
}

func (m *memoryStore) open(Location, *Credentials) (Store, error) { return m, nil }

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a run in a memory store, and a Reader of it.
type world struct {
	*catalogtest.Run
	store  *memoryStore
	clock  *clock
	reader *Reader
}

func newWorld(ranks int, o Options) *world {
	w := &world{store: newMemoryStore(), clock: &clock{now: noon}}
	w.Run = &catalogtest.Run{Namespace: "team-a", Name: "llama", RunID: "run-1", Ranks: ranks, Put: w.store.put}
	o.Now = w.clock.read
	w.reader = NewReader(w.store.open, o)
	return w
}

func (w *world) run() Run {
	return Run{Namespace: w.Namespace, Name: w.Name, RunID: w.RunID, Location: Location{URI: "s3://bucket"}}
}

// read reads now and fails the test when the store cannot be read.
func (w *world) read(t *testing.T, ask Ask) *checkpoint.Snapshot {
	t.Helper()
	s := w.reader.Read(t.Context(), w.run(), ask)
	if s.Failure != nil {
		t.Fatalf("%s: %s", s.Failure.Kind, s.Failure.Message)
	}
	return s
}

// find returns the manifest of the snapshot.
func find(t *testing.T, s *checkpoint.Snapshot, id string) checkpoint.Manifest {
	t.Helper()
	for _, m := range s.Manifests {
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("the snapshot has no manifest %s", id)
	return checkpoint.Manifest{}
}
