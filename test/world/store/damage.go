package store

import (
	"bytes"
	"strings"
)

// Lose removes an object that was acknowledged.
func (s *Store) Lose(key string) { s.remove(key) }

// Cut keeps the first half of an object: another size and another ETag.
func (s *Store) Cut(key string) {
	s.damage(key, func(data []byte) ([]byte, bool) { return data[:len(data)/2], true })
}

// Rot changes a byte of an object. Size and ETag stay: only a read shows it.
func (s *Store) Rot(key string) {
	s.damage(key, func(data []byte) ([]byte, bool) {
		if len(data) > 0 {
			data[len(data)/2]++ // again, it is not what it was
		}
		return data, false
	})
}

// damage replaces an object's bytes by changed ones, whether the store answers or
// not, and shows that in the ETag or not.
func (s *Store) damage(key string, change func([]byte) (changed []byte, shown bool)) {
	at, found := s.find(key)
	if !found {
		return
	}
	was := s.objects[at]
	data, shown := change(bytes.Clone(was.Data))
	o := &Object{Key: key, Data: data, ETag: was.ETag, Modified: was.Modified}
	if shown {
		o.ETag = ETag(data)
	}
	s.own()
	s.objects[at] = o
	s.revision++
	s.shape++ // a manifest may name other objects now, or none
}

// Faults are what may happen to a store by itself.
type Faults struct {
	// Outages: no answer, or SlowDown for half a minute.
	Outages bool
	// Denials: refused credentials.
	Denials bool
	// Damage: objects of the newest manifests are lost, cut and rot.
	Damage bool
	// Foreign: other people's files below a run.
	Foreign bool
}

// damaged is the number of newest manifests of a run whose objects are offered for
// damage: older ones are hardly ever read.
const damaged = 2

// foreign are files that other programs and people leave. Their places are below a
// run.
var foreign = []struct{ key, data string }{
	{"manifests/README", "hello"},
	{"manifests/latest.json", "{}"},
	{"manifests/", ""},
	{"attempts/notes.txt", "hello"},
	{"attempts/0/start.json", "{}"},
	{"quarantine/all", "hello"},
	{"checkpoints/.DS_Store", "hello"},
}

// runs calls do for the prefix of every run that has a manifest, and its manifests,
// oldest first.
func (s *Store) runs(do func(prefix string, manifests []*Object)) {
	const folder = "/manifests/"
	for at := 0; at < len(s.objects); {
		prefix, _, found := strings.Cut(s.objects[at].Key, folder)
		if !found {
			at++
			continue
		}
		prefix += folder
		end := at
		for end < len(s.objects) && strings.HasPrefix(s.objects[end].Key, prefix) {
			end++
		}
		do(strings.TrimSuffix(prefix, "manifests/"), s.objects[at:end])
		at = end
	}
}

// victims calls do for the objects that are offered for damage: of each of the newest
// manifests itself, its first index and data object, and its last data object.
func (s *Store) victims(do func(key string)) {
	s.runs(func(run string, manifests []*Object) {
		for _, o := range manifests[max(0, len(manifests)-damaged):] {
			m := o.manifest()
			if m.Defect != nil {
				continue
			}
			do(o.Key)
			attempt, step, nonce := partsOf(m.ID)
			prefix := run + "checkpoints/" + attempt + "/" + step + "-" + nonce + "/"
			var first, last, index string
			s.each(prefix, "", func(o *Object) bool {
				switch {
				case !strings.HasSuffix(o.Key, "-index.json"):
					if first == "" {
						first = o.Key
					}
					last = o.Key
				case index == "":
					index = o.Key
				}
				return true
			})
			if index != "" {
				do(index)
			}
			if first != "" {
				do(first)
			}
			if last != first {
				do(last)
			}
		}
	})
}

// partsOf takes a valid checkpoint id apart: attempt and step without zeros before.
func partsOf(id string) (attempt, step, nonce string) {
	parts := strings.Split(id, "-")
	trim := func(digits string) string {
		if short := strings.TrimLeft(digits, "0"); short != "" {
			return short
		}
		return "0"
	}
	return trim(parts[0]), trim(parts[1]), parts[2]
}
