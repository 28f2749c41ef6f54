// Package fingerprint tells states of a simulated world apart by what decides its
// future: two worlds that differ only in the UIDs and versions that the API server
// gave, or in when they are, have the same fingerprint.
package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"regexp"
	"strconv"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// Horizon is the age from which on times make no difference any more: no deadline
// of a small world is further away.
const Horizon = 2 * time.Hour

// Sum is a fingerprint.
type Sum [sha256.Size]byte

// Hash takes up the state of a world, in an order that is the same for equal worlds.
type Hash struct {
	now      time.Time
	text     []byte
	uids     map[string]int
	versions map[string]int
}

// New returns a Hash that has taken up the objects of a server.
func New(s *apiserver.Server) *Hash {
	h := &Hash{now: s.Now(), uids: map[string]int{}, versions: map[string]int{}}
	for _, kind := range s.Kinds() {
		for _, o := range s.List(kind) {
			h.versions[strconv.FormatInt(o.Version, 10)] = len(h.uids)
			h.uids[o.UID] = len(h.uids)
		}
	}
	for _, kind := range s.Kinds() {
		for _, o := range s.List(kind) {
			h.Object(o)
		}
	}
	return h
}

// Sum returns the fingerprint of what was taken up.
func (h *Hash) Sum() Sum { return sha256.Sum256(h.text) }

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
		h.Int(1)
	} else {
		h.Int(0)
	}
}

// Time takes up a time, as its distance from now; zero is like none.
func (h *Hash) Time(t time.Time) {
	if t.IsZero() {
		h.text = append(h.text, 'z')
		return
	}
	h.Int(int64(min(max(t.Sub(h.now), -Horizon), Horizon)))
}

// Object takes up an object: the newest version of one, or an older one that
// somebody still sees.
func (h *Hash) Object(o *apiserver.Object) {
	if o == nil {
		h.Text("")
		return
	}
	h.parts(o.Cached(partsKey{}, func() any { return take(string(o.JSON())) }).([]part))
}

// JSON takes up a text in which UIDs, versions and times may stand.
func (h *Hash) JSON(text string) { h.parts(take(text)) }

type partsKey struct{}

// part of a text: plain, or something that is taken up by what it means.
type part struct {
	plain        string
	uid, version string
	at           time.Time
}

// variable is what may differ between equal worlds. JSON within JSON has its quotes
// escaped.
var variable = regexp.MustCompile(`\buid-[0-9]+\b|\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z|resourceVersion\\*":\\*"[0-9]+`)

// take takes a text apart.
func take(text string) (parts []part) {
	end := 0
	for _, m := range variable.FindAllStringIndex(text, -1) {
		if m[0] > end {
			parts = append(parts, part{plain: text[end:m[0]]})
		}
		end = m[1]
		switch found := text[m[0]:m[1]]; found[0] {
		case 'u':
			parts = append(parts, part{uid: found})
		case 'r':
			digits := len(found)
			for digits > 0 && found[digits-1] >= '0' && found[digits-1] <= '9' {
				digits--
			}
			parts = append(parts, part{version: found[digits:]})
		default:
			at, err := time.Parse(time.RFC3339Nano, found)
			if err != nil {
				parts = append(parts, part{plain: found})
				continue
			}
			parts = append(parts, part{at: at})
		}
	}
	return append(parts, part{plain: text[end:]})
}

func (h *Hash) parts(parts []part) {
	for i := range parts {
		switch p := &parts[i]; {
		case p.uid != "":
			n, ok := h.uids[p.uid]
			if !ok {
				n = len(h.uids)
				h.uids[p.uid] = n
			}
			h.text = append(h.text, 'u')
			h.Int(int64(n))
		case p.version != "":
			// Whether it is still the newest is all that a version tells.
			n, ok := h.versions[p.version]
			if !ok {
				n = -1
			}
			h.text = append(h.text, 'v')
			h.Int(int64(n))
		case !p.at.IsZero():
			h.text = append(h.text, 't')
			h.Time(p.at)
		default:
			h.Text(p.plain)
		}
	}
	h.text = append(h.text, 0)
}
