package store

import (
	"regexp"
	"strings"
	"time"
)

// Hash takes up the state of a world; equal worlds take up the same. JSON is a text in
// which UIDs and times may stand, which mean the same in worlds that differ in them.
type Hash interface {
	Text(string)
	Int(int64)
	Bool(bool)
	Time(time.Time)
	JSON(string)
	// Told is JSON in which times decide nothing, and Aged one in which their distance
	// from now counts up to an age.
	Told(string)
	Aged(string, time.Duration)
	// Age takes up a time whose distance from now counts up to an age, and that is then
	// compared with the others of a pool only.
	Age(t time.Time, upTo time.Duration, pool string)
}

// checkpointID in a text. Its hash is of bytes in which times and UIDs stand.
var checkpointID = regexp.MustCompile(`\b([0-9]{6}-[0-9]{12}-[0-9a-f]{12})-[0-9a-f]{16}\b`)

// measured are what records tell of how long something took, for people.
var measured = regexp.MustCompile(`("seconds|"stepsPerSecond|"restoreSeconds)":"?[0-9.]+"?|(committed in )[0-9.]+ s`)

// Plain returns a text in which checkpoint ids are without their hash, for nonces tell
// them apart already, and records without what was measured.
func Plain(text string) string {
	return measured.ReplaceAllString(checkpointID.ReplaceAllString(text, "$1"), "$1$2")
}

// plain is what an object means: its key and bytes, and whether these are those that
// were written.
func (o *Object) plain() string {
	o.meaning.Do(func() {
		o.means = Plain(o.Key) + "\n" + Plain(string(o.Data))
		if ETag(o.Data) != o.ETag {
			o.means += "\nETag " + o.ETag
		}
	})
	return o.means
}

// resultCounts is how long it matters when a training finished: then pods that are left
// are stopped.
const resultCounts = 5 * time.Minute

// readingCounts is how long it matters when a reading was made: by then another one is
// due, whatever it is for.
const readingCounts = 95 * time.Second

// Fingerprint takes up what decides the store's future. When an object was written is
// in its bytes, if it matters.
func (s *Store) Fingerprint(h Hash) {
	h.Int(int64(len(s.objects)))
	for _, o := range s.objects {
		if strings.HasSuffix(o.Key, "/result.json") {
			h.Aged(o.plain(), resultCounts)
		} else {
			h.Told(o.plain())
		}
	}
	if err := s.Failure(); err != nil {
		h.Text(err.Error())
		h.Time(s.failureEnds)
	}
	h.Int(int64(len(s.unreadable)))
	for _, key := range s.unreadable {
		h.JSON(Plain(key))
	}
	h.Int(int64(s.lateness))
	now := s.env.Now()
	for _, l := range s.late {
		if !now.Before(l.until) {
			continue
		}
		h.JSON(Plain(l.key))
		h.Time(l.until)
		if h.Bool(l.before != nil); l.before != nil {
			h.JSON(l.before.plain())
		}
	}
	for _, u := range s.uploads {
		h.Text(u.id)
		h.Int(int64(len(u.parts)))
	}
}

// Fingerprint takes up what the Reader remembers: what may make its next reading differ
// from one without memory.
func (r *Reader) Fingerprint(h Hash, prefixes ...string) {
	for _, prefix := range prefixes {
		m := r.runs[prefix]
		if h.Bool(m != nil); m == nil {
			continue
		}
		if h.Bool(m.last != nil); m.last != nil {
			h.Bool(m.last.Failure != nil)
			h.Age(m.last.ListedAt, readingCounts, "store")
			h.Int(int64(len(m.last.Manifests)))
		}
		for _, known := range m.manifests {
			h.JSON(Plain(known.manifest.ID))
			h.Int(int64(known.depth))
			h.JSON(Plain(known.manifest.Incomplete))
			h.Age(known.manifest.CheckedAt, readingCounts, "store")
			h.Bool(known.manifest.Defect != nil)
		}
		takeRecords(h, m.starts)
		takeRecords(h, m.progress)
		takeRecords(h, m.results)
		for i := range m.quarantine {
			h.JSON(Plain(m.quarantine[i].id))
			h.Bool(m.quarantine[i].value != nil)
		}
	}
}

func takeRecords[T any](h Hash, known []knownRecord[T]) {
	h.Int(int64(len(known)))
	for i := range known {
		h.Int(int64(known[i].attempt))
		h.Told(known[i].from.plain())
	}
}
