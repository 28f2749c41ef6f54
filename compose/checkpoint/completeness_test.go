package checkpoint

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// stored is a checkpoint of some ranks, each with two objects, as a save leaves
// it in the store.
type stored struct {
	manifest Manifest
	objects  map[string][]byte
}

func etag(data []byte) string { return fmt.Sprintf("%x", md5.Sum(data)) }

func saved(t *testing.T, ranks int) *stored {
	t.Helper()
	s := &stored{manifest: save(1, 100), objects: map[string][]byte{}}
	s.manifest.WorldSize = int32(ranks)
	s.manifest.Objects, s.manifest.Bytes, s.manifest.Indexes = 0, 0, nil
	for rank := range ranks {
		index := Index{Ranks: []int32{int32(rank)}}
		for k := range 2 {
			key := fmt.Sprintf("%02x/r%d-%d", rank, rank, k)
			data := []byte(strings.Repeat(string(rune('a'+rank)), 100+k))
			s.objects[key] = data
			index.Objects = append(index.Objects, IndexObject{Key: key, Bytes: int64(len(data)), ETag: etag(data)})
			s.manifest.Objects++
			s.manifest.Bytes += int64(len(data))
		}
		s.index(t, fmt.Sprintf("%02x/r%d-index.json", rank, rank), index)
	}
	return s
}

// index writes an index object and names it in the manifest.
func (s *stored) index(t *testing.T, key string, x Index) {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"schemaVersion": "1.0", "kind": "CheckpointIndex", "ranks": x.Ranks, "objects": x.Objects})
	if err != nil {
		t.Fatal(err)
	}
	s.objects[key] = data
	sum := sha256.Sum256(data)
	ref := IndexRef{Key: key, Bytes: int64(len(data)), ETag: etag(data), SHA256: hex.EncodeToString(sum[:])}
	at := slices.IndexFunc(s.manifest.Indexes, func(r IndexRef) bool { return r.Key == key })
	if at < 0 {
		s.manifest.Indexes = append(s.manifest.Indexes, ref)
	} else {
		s.manifest.Indexes[at] = ref
	}
}

func (s *stored) judge(withIndexes bool) string {
	c := NewCompleteness(&s.manifest)
	if withIndexes {
		for _, ref := range s.manifest.Indexes {
			if data, ok := s.objects[ref.Key]; ok {
				c.Index(ref, data)
			} else {
				c.Missing(ref)
			}
		}
	}
	for key, data := range s.objects {
		c.Listed(key, int64(len(data)), etag(data))
	}
	return c.Verdict()
}

func TestACheckpointIsCompleteWhenEveryObjectIsThere(t *testing.T) {
	for _, ranks := range []int{1, 4, 16} {
		s := saved(t, ranks)
		if got := s.judge(true); got != "" {
			t.Errorf("%d ranks: %s", ranks, got)
		}
		if got := s.judge(false); got != "" {
			t.Errorf("%d ranks, listing only: %s", ranks, got)
		}
	}
}

func TestACheckpointIsIncompleteWhen(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(*testing.T, *stored)
		want   string
		// unseen: only the index objects show it.
		unseen bool
	}{
		{name: "an object is missing", damage: func(_ *testing.T, s *stored) { delete(s.objects, "02/r2-1") },
			want: "checkpoints/1/100-000000000000/02/r2-1 is missing (101 bytes)"},
		{name: "an object is one byte short", damage: func(_ *testing.T, s *stored) { s.objects["02/r2-1"] = s.objects["02/r2-1"][1:] },
			want: "checkpoints/1/100-000000000000/02/r2-1 has 100 bytes, the index says 101"},
		{name: "an object was replaced by one of the same size", unseen: true,
			damage: func(_ *testing.T, s *stored) { s.objects["02/r2-1"] = []byte(strings.Repeat("z", 101)) },
			want:   "02/r2-1 has ETag "},
		{name: "two objects changed places", unseen: true, damage: func(_ *testing.T, s *stored) {
			s.objects["00/r0-0"], s.objects["01/r1-0"] = s.objects["01/r1-0"], s.objects["00/r0-0"]
		}, want: "00/r0-0 has ETag "},
		{name: "an index is missing", damage: func(_ *testing.T, s *stored) { delete(s.objects, "03/r3-index.json") },
			want: "checkpoints/1/100-000000000000/03/r3-index.json is missing"},
		{name: "an index was replaced", damage: func(_ *testing.T, s *stored) {
			s.objects["03/r3-index.json"] = []byte("{}")
		}, want: "03/r3-index.json has SHA-256 44136fa355b3678a..., the manifest says "},
		{name: "several are missing", damage: func(_ *testing.T, s *stored) {
			delete(s.objects, "01/r1-0")
			delete(s.objects, "02/r2-1")
			delete(s.objects, "03/r3-index.json")
		}, want: "01/r1-0 is missing (100 bytes); 2 more objects are missing or differ"},
		{name: "fewer ranks have an index than saved", damage: func(_ *testing.T, s *stored) {
			s.manifest.Indexes = s.manifest.Indexes[:2]
			s.manifest.Objects, s.manifest.Bytes = 4, 402
		}, want: "2 of 4 ranks have an index; rank 2 has none"},
		{name: "a rank is listed twice, another never", unseen: true, damage: func(t *testing.T, s *stored) {
			s.index(t, "03/r3-index.json", Index{Ranks: []int32{2}})
		}, want: "03/r3-index.json lists rank 2, and so does 02/r2-index.json"},
		{name: "an index lists a rank that did not save", unseen: true, damage: func(t *testing.T, s *stored) {
			s.index(t, "03/r3-index.json", Index{Ranks: []int32{4}})
		}, want: "lists rank 4 of 4 ranks"},
		{name: "an index names an object of another", unseen: true, damage: func(t *testing.T, s *stored) {
			s.index(t, "03/r3-index.json", Index{Ranks: []int32{3}, Objects: []IndexObject{{Key: "02/r2-0", Bytes: 100}}})
		}, want: "03/r3-index.json names 02/r2-0, which is named already"},
		{name: "an index was cut before it was hashed", unseen: true, damage: func(_ *testing.T, s *stored) {
			cut := s.objects["03/r3-index.json"]
			cut = cut[:len(cut)-5]
			s.objects["03/r3-index.json"] = cut
			sum := sha256.Sum256(cut)
			s.manifest.Indexes[3] = IndexRef{Key: "03/r3-index.json", Bytes: int64(len(cut)), ETag: etag(cut), SHA256: hex.EncodeToString(sum[:])}
		}, want: "03/r3-index.json is not JSON"},
		{name: "the manifest counts more objects than the indexes", damage: func(_ *testing.T, s *stored) { s.manifest.Objects++ },
			want: "the indexes name 8 data objects of 804 bytes, the manifest says 9 of 804"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := saved(t, 4)
			c.damage(t, s)
			if got := s.judge(true); !strings.Contains(got, c.want) {
				t.Errorf("%q, want it with %q", got, c.want)
			}
			if got := s.judge(false); (got == "") != c.unseen {
				t.Errorf("by listing only: %q", got)
			}
		})
	}
}

// A group of ranks may share an index: what counts is that every rank is there.
func TestRanksMayShareAnIndex(t *testing.T) {
	s := saved(t, 2)
	var both Index
	for _, ref := range s.manifest.Indexes {
		x, err := ParseIndex(s.objects[ref.Key])
		if err != nil {
			t.Fatal(err)
		}
		both.Ranks = append(both.Ranks, x.Ranks...)
		both.Objects = append(both.Objects, x.Objects...)
		delete(s.objects, ref.Key)
	}
	s.manifest.Indexes = nil
	s.index(t, "00/g0-index.json", both)
	if got := s.judge(true); got != "" {
		t.Error(got)
	}
}

// An upload that was given up may leave objects that no index names.
func TestObjectsThatNoIndexNamesDoNoHarm(t *testing.T) {
	s := saved(t, 2)
	s.objects["00/r0-9"] = []byte("left over")
	if got := s.judge(true); got != "" {
		t.Error(got)
	}
}

func TestAnObjectThatIsListedAndNotFoundLeavesDoubt(t *testing.T) {
	s := saved(t, 2)
	c := NewCompleteness(&s.manifest)
	c.Index(s.manifest.Indexes[0], s.objects["00/r0-index.json"])
	c.Missing(s.manifest.Indexes[1])
	if got := c.Doubt(); got != "" {
		t.Error("nothing is listed yet:", got)
	}
	for key, data := range s.objects {
		c.Listed(key, int64(len(data)), etag(data))
	}
	if got := c.Doubt(); got != "checkpoints/1/100-000000000000/01/r1-index.json is listed and cannot be read" {
		t.Error(got)
	}
}
