package applier

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

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

// records are what is remembered of a parent and its children, and of the writes
// to them that the caches do not show yet. They may be used concurrently.
type records struct {
	mu           sync.Mutex
	byUID        map[types.UID]record
	expectations []expectation
}

func newRecords() *records { return &records{byUID: map[types.UID]record{}} }

func (r *records) get(uid types.UID) record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byUID[uid]
}

func (r *records) note(uid types.UID, change func(*record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.byUID[uid]
	change(&changed)
	r.byUID[uid] = changed
}

// knows tells whether a difference is known to be unreachable.
func (r *records) knows(uid types.UID, d difference) bool {
	return r.get(uid).left == d.fingerprint()
}

// remember notes what was left of a difference after a write. It returns whether
// that is news.
func (r *records) remember(uid types.UID, left difference) (news bool) {
	now := left.fingerprint()
	r.note(uid, func(known *record) {
		news = !left.empty() && known.left != now
		known.left = now
	})
	return news
}

// prune forgets the objects that are gone.
func (r *records) prune(exist map[types.UID]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range r.byUID {
		if !exist[uid] {
			delete(r.byUID, uid)
		}
	}
}

// recorded counts the objects and the writes that are remembered.
func (r *records) recorded() (objects, expectations int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byUID), len(r.expectations)
}
