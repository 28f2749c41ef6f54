// Package fingerprint tells states of a simulated world apart by what decides its
// future: two worlds that differ only in the UIDs and versions that the API server
// gave, in when they are, or in what nobody reads (rules, in unread.go), have the same
// fingerprint.
package fingerprint

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

// Horizon is the age from which on times make no difference any more: no deadline
// of a small world is further away.
const Horizon = 2 * time.Hour

// Marks are the lengths of time between which a coarse fingerprint makes no difference:
// about those that are waited for.
var Marks = []time.Duration{
	0, time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 95 * time.Second,
	2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour,
}

// about is the place of the first mark that a distance does not exceed; negative: it is
// past.
func about(d time.Duration) int64 {
	sign := int64(1)
	if d < 0 {
		sign, d = -1, -d
	}
	i, _ := slices.BinarySearch(Marks, d)
	return sign * int64(i)
}

// Sum is a fingerprint.
type Sum [16]byte

// Hash takes up the state of a world, in an order that is the same for equal worlds.
type Hash struct {
	// Whole has texts be taken up as they are, not by their digest: for people who
	// look for what two worlds differ in.
	Whole bool
	// Coarse has the distance of times from now be taken up by about how long it is (see
	// [Marks]). Worlds that differ in it by less have the same fingerprint, though their
	// futures may not be the same.
	Coarse bool

	now      time.Time
	text     []byte
	uids     map[string]int
	versions map[string]int
	marks    []mark
	// parents are the jobs by UID, and running the names of the processes of rtj.
	parents map[string]*apiserver.Object
	running []string
	// over are the jobs by UID that ended for good, with their Workloads.
	over map[string]bool
	// pooled are the times that are compared with others, in the order in which they were
	// taken up.
	pooled []pooled
}

// mark is where a part of the world begins in the text.
type mark struct {
	name string
	at   int
}

// New returns a Hash that has taken up nothing yet of a world with the objects of a
// server, which are told by their place among them. running are the names of the
// processes of rtj.
func New(s *apiserver.Server, running ...string) *Hash {
	h := &Hash{
		now: s.Now(), text: make([]byte, 0, 4096), uids: make(map[string]int, 32), versions: make(map[string]int, 32),
		parents: make(map[string]*apiserver.Object, 2), running: running,
	}
	s.Each(func(o *apiserver.Object) {
		h.versions[strconv.FormatInt(o.Version, 10)] = len(h.uids)
		h.uids[o.UID] = len(h.uids)
		if o.Kind == v1beta1.Kind {
			h.parents[o.UID] = o
			if stated.Ended(o) && !o.Deleting() {
				if h.over == nil {
					h.over = map[string]bool{}
				}
				h.over[o.UID] = true
			}
		}
	})
	if h.over != nil {
		for _, o := range s.List("Workload") {
			if !o.True("Finished") {
				delete(h.over, o.Owner())
			}
		}
	}
	return h
}

// Server takes up the objects of a server, kind by kind.
func (h *Hash) Server(s *apiserver.Server) {
	kind := ""
	s.Each(func(o *apiserver.Object) {
		if o.Kind != kind {
			kind = o.Kind
			h.Part(kind)
		}
		h.Text(o.Namespace)
		h.Text(o.Name)
		h.Object(o)
	})
}

// Part begins a part of the world.
func (h *Hash) Part(name string) {
	h.text = append(h.text, 0xff)
	h.marks = append(h.marks, mark{name, len(h.text)})
}

// Sum returns the fingerprint of what was taken up.
func (h *Hash) Sum() (sum Sum) {
	h.orders()
	whole := sha256.Sum256(h.text)
	copy(sum[:], whole[:])
	return sum
}

// pooled is a time that is compared with the others of its pool.
type pooled struct {
	pool string
	at   time.Time
}

// eternity is longer than any world lasts.
const eternity = 1 << 62

// orders takes up the order of the times of each pool.
func (h *Hash) orders() {
	if h.pooled == nil {
		return
	}
	h.Part("order")
	compare := func(a, b pooled) int { return cmp.Or(strings.Compare(a.pool, b.pool), a.at.Compare(b.at)) }
	sorted := slices.Clone(h.pooled)
	slices.SortFunc(sorted, compare)
	sorted = slices.CompactFunc(sorted, func(a, b pooled) bool { return compare(a, b) == 0 })
	for _, p := range h.pooled {
		first, _ := slices.BinarySearchFunc(sorted, pooled{pool: p.pool}, compare)
		place, _ := slices.BinarySearchFunc(sorted, p, compare)
		h.Int(int64(place - first))
	}
	h.pooled = nil
}

// Parts are what was taken up, by the part of the world: for people, and for what
// compares.
func (h *Hash) Parts(each func(name string, text []byte)) {
	h.orders()
	for i, m := range h.marks {
		end := len(h.text)
		if i+1 < len(h.marks) {
			end = h.marks[i+1].at
		}
		each(m.name, h.text[m.at:end])
	}
}

// Text takes up a text.
func (h *Hash) Text(s string) {
	h.Int(int64(len(s)))
	h.text = append(h.text, s...)
}

// Int takes up a number.
func (h *Hash) Int(n int64) { h.text = binary.AppendVarint(h.text, n) }

// Bool takes up a truth.
func (h *Hash) Bool(is bool) {
	if is {
		h.text = append(h.text, 1)
	} else {
		h.text = append(h.text, 0)
	}
}

// Time takes up a time, as its distance from now; zero is like none.
func (h *Hash) Time(t time.Time) { h.Age(t, Horizon, "") }

// Age takes up a time whose distance from now counts up to an age. From then on it is
// only compared with the other times of its pool; where that is empty, with none.
func (h *Hash) Age(t time.Time, upTo time.Duration, pool string) {
	switch d := t.Sub(h.now); {
	case t.IsZero():
		h.text = append(h.text, 'z')
		return
	case -d <= upTo:
		h.text = append(h.text, 'd')
		if h.Coarse {
			h.Int(about(d))
		} else {
			h.Int(int64(d))
		}
	default:
		h.text = append(h.text, 'o')
	}
	if pool != "" {
		h.pooled = append(h.pooled, pooled{pool, t})
	}
}

// Object takes up an object: the newest version of one, or an older one that
// somebody still sees.
func (h *Hash) Object(o *apiserver.Object) {
	if o == nil {
		h.text = append(h.text, 0)
		return
	}
	parent := h.parents[o.Owner()]
	if o.Kind == v1beta1.Kind {
		parent = o
	}
	bits := chosen(o, parent)
	if len(h.over) > 0 && h.Over(h.ownerOf(o)) {
		bits |= timeless
	}
	h.taken(o.Cached(takenKey{bits}, func() any { return ofObject(o, bits) }).(*taken))
}

// JSON takes up a text in which UIDs, versions and times may stand.
func (h *Hash) JSON(text string) { h.taken(ofText(text, as{age: Horizon})) }

// Told takes up a text in which times stand that decide nothing.
func (h *Hash) Told(text string) { h.taken(ofText(text, as{what: presence})) }

// Aged takes up a text in which the distance of times from now counts up to an age.
func (h *Hash) Aged(text string, upTo time.Duration) { h.taken(ofText(text, as{age: upTo})) }

// Place is where an object is among those that exist, by its UID; the others follow.
func (h *Hash) Place(uid string) int {
	if n, ok := h.uids[uid]; ok {
		return n
	}
	return len(h.uids)
}

// ownerOf is the UID of the job that an object belongs to.
func (h *Hash) ownerOf(o *apiserver.Object) string {
	if h.parents[o.UID] != nil {
		return o.UID
	}
	if owner := o.Owner(); h.parents[owner] != nil {
		return owner
	}
	return o.Label(v1beta1.LabelUID)
}

// Over tells whether a job has ended for good, with its Workloads, so that rtj does
// nothing about it any more.
func (h *Hash) Over(uid string) bool { return h.over[uid] }

// Newest tells whether a version is the newest of an object.
func (h *Hash) Newest(version string) bool {
	_, ok := h.versions[version]
	return ok
}

// takenKey is of an object as it is taken up by the rules that were chosen.
type takenKey struct{ bits uint64 }

func (h *Hash) taken(t *taken) {
	if h.Whole {
		h.text = append(h.text, t.text...)
	} else {
		h.text = append(h.text, t.digest[:]...)
	}
	for i := range t.variables {
		switch v := &t.variables[i]; v.kind {
		case isUID:
			n, ok := h.uids[v.text]
			if !ok {
				n = len(h.uids)
				h.uids[v.text] = n
			}
			h.Int(int64(n))
		case isVersion:
			// Whether it is still the newest is all that a version tells.
			n, ok := h.versions[v.text]
			if !ok {
				n = -1
			}
			h.Int(int64(n))
		case isObserver:
			h.Bool(slices.Contains(h.running, v.text))
		case isTime:
			if v.as.what == order {
				h.Age(v.at, -eternity, v.as.pool)
			} else {
				h.Age(v.at, v.as.age, v.as.pool)
			}
		}
	}
}
