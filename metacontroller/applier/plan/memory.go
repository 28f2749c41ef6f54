package plan

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// fingerprint stands for a value in comparisons. The zero value stands for none.
type fingerprint [sha256.Size]byte

// fingerprintOf returns the fingerprint of decoded JSON.
func fingerprintOf(value any) fingerprint {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // decoded JSON
	}
	return sha256.Sum256(text)
}

// record is what is remembered of one object between syncs.
type record struct {
	// left is the difference that was left when the object was last written, and
	// statusLeft that of a child's status: what the API server does not take or
	// keeps changing back.
	left, statusLeft fingerprint
	// applied is what was last applied of a partial child, and statusApplied of
	// its status.
	applied, statusApplied fingerprint
	// takenOver says that no older entry of managedFields holds our fields.
	takenOver bool
	// place of the child in the last answer, from 1.
	place int
}

// Memory is what is remembered of a parent between syncs: of it and its children,
// of the writes to them that the views do not show yet, and of the syncs
// themselves. Its methods may be used concurrently, its fields by one sync at a
// time. It goes when the parent goes; losing it costs requests, never correctness.
type Memory struct {
	// UID of the parent.
	UID types.UID
	// Failures in a row, and when the next attempt may be.
	Failures  int
	NotBefore time.Time
	// Slow says that the last failure took long.
	Slow bool
	// ResyncAt is when a hook asked to be called again, if it did.
	ResyncAt time.Time

	mu           sync.Mutex
	byUID        map[types.UID]record
	expectations []expectation
}

// NewMemory returns one that remembers nothing.
func NewMemory() *Memory { return &Memory{byUID: map[types.UID]record{}} }

// Clone returns a copy that shares nothing with the original.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{
		UID: m.UID, Failures: m.Failures, NotBefore: m.NotBefore, Slow: m.Slow, ResyncAt: m.ResyncAt,
		byUID: maps.Clone(m.byUID), expectations: slices.Clone(m.expectations),
	}
}

// For starts afresh when a new parent has the name of an old one, and tells
// whether it did. How often syncs failed stays.
func (m *Memory) For(uid types.UID) bool {
	if m.UID == uid {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.UID, m.ResyncAt = uid, time.Time{}
	m.byUID, m.expectations = map[types.UID]record{}, nil
	return true
}

// resyncAfter notes that a hook asked to be called again. The earliest time wins.
func (m *Memory) resyncAfter(seconds float64, now time.Time) {
	if seconds <= 0 {
		return
	}
	at := now.Add(time.Duration(math.Min(seconds*float64(time.Second), float64(365*24*time.Hour))))
	if m.ResyncAt.IsZero() || at.Before(m.ResyncAt) {
		m.ResyncAt = at
	}
}

func (m *Memory) get(uid types.UID) record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byUID[uid]
}

func (m *Memory) note(uid types.UID, change func(*record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.byUID[uid]
	change(&changed)
	m.byUID[uid] = changed
}

// knows tells whether a difference is known to be unreachable.
func (m *Memory) knows(uid types.UID, d difference) bool {
	known := m.get(uid).left
	if known == (fingerprint{}) {
		return d.empty()
	}
	return known == d.fingerprint()
}

// remember notes what was left of a difference after a write. It returns whether
// that is news.
func (m *Memory) remember(uid types.UID, left difference) (news bool) {
	now := left.fingerprint()
	m.note(uid, func(known *record) {
		news = !left.empty() && known.left != now
		known.left = now
	})
	return news
}

func (m *Memory) noteApplied(uid types.UID, object map[string]any) {
	digest := fingerprintOf(object)
	m.note(uid, func(known *record) { known.applied = digest })
}

// prune forgets the objects that are gone.
func (m *Memory) prune(exist map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.byUID {
		if !exist[uid] {
			delete(m.byUID, uid)
		}
	}
}

// Recorded counts the objects and the writes that are remembered.
func (m *Memory) Recorded() (objects, expectations int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byUID), len(m.expectations)
}
