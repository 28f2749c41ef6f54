package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// Completeness judges whether what the store lists is what a manifest
// promises. Without the index objects it compares these, and the number and
// bytes of the data objects; with them every data object by size and ETag.
//
// Pass the index objects first (Index, Missing or Unreadable), if they are read,
// then every listed object (Listed), then ask for the Verdict.
type Completeness struct {
	manifest *Manifest
	prefix   string

	promised map[string]*promise
	// faults by key; the smallest key is reported.
	faults map[string]string

	// ranks says which index object lists a rank.
	ranks       map[int32]string
	indexesRead int
	// indexed are the data objects that the index objects name.
	indexed, indexedBytes int64
	// listed are the listed objects that nothing promised: without the index
	// objects these are all data objects.
	listed, listedBytes int64
}

// promise is an object that must be there.
type promise struct {
	bytes int64
	etag  string
	// by names the document that promises it.
	by   string
	seen bool
	// missing: it was asked for and did not exist.
	missing bool
}

// NewCompleteness judges the manifest, which must have no defect.
func NewCompleteness(m *Manifest) *Completeness {
	c := &Completeness{
		manifest: m,
		promised: make(map[string]*promise, len(m.Indexes)),
		faults:   map[string]string{},
		ranks:    map[int32]string{},
	}
	if attempt, step, nonce, _, err := ParseID(m.ID); err == nil {
		c.prefix = Prefix(attempt, step, nonce)
	}
	for _, index := range m.Indexes {
		c.promised[index.Key] = &promise{bytes: index.Bytes, etag: index.ETag, by: "manifest"}
	}
	return c
}

// Prefix is where the objects are, relative to the run; it ends with a slash.
func (c *Completeness) Prefix() string { return c.prefix }

// Missing takes an index object that was asked for and does not exist.
func (c *Completeness) Missing(ref IndexRef) {
	c.indexesRead++
	c.promised[ref.Key].missing = true
}

// Unreadable takes an index object that is there and cannot be used, and why.
// A store that does not answer is no reason.
func (c *Completeness) Unreadable(ref IndexRef, why string) {
	c.indexesRead++
	c.fault(ref.Key, why)
}

// Index takes the bytes of an index object.
func (c *Completeness) Index(ref IndexRef, data []byte) {
	c.indexesRead++
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != ref.SHA256 {
		c.fault(ref.Key, fmt.Sprintf("has SHA-256 %s..., the manifest says %.*s...", got[:hashDigits], hashDigits, ref.SHA256))
		return
	}
	index, err := ParseIndex(data)
	if err != nil {
		c.fault(ref.Key, err.Error())
		return
	}
	for _, rank := range index.Ranks {
		if other, twice := c.ranks[rank]; twice {
			c.fault(ref.Key, fmt.Sprintf("lists rank %d, and so does %s", rank, other))
			return
		}
		if rank >= c.manifest.WorldSize {
			c.fault(ref.Key, fmt.Sprintf("lists rank %d of %d ranks", rank, c.manifest.WorldSize))
			return
		}
		c.ranks[rank] = ref.Key
	}
	for _, o := range index.Objects {
		if _, twice := c.promised[o.Key]; twice {
			c.fault(ref.Key, fmt.Sprintf("names %s, which is named already", clip(o.Key, 128)))
			return
		}
		c.promised[o.Key] = &promise{bytes: o.Bytes, etag: o.ETag, by: "index"}
		c.indexed++
		c.indexedBytes += o.Bytes
	}
}

// Listed takes an object that the store lists below the prefix. The key is
// relative to it.
func (c *Completeness) Listed(key string, bytes int64, etag string) {
	p := c.promised[key]
	if p == nil {
		c.listed++
		c.listedBytes += bytes
		return
	}
	p.seen = true
	switch {
	case p.bytes != bytes:
		c.fault(key, fmt.Sprintf("has %d bytes, the %s says %d", bytes, p.by, p.bytes))
	case p.etag != etag:
		c.fault(key, fmt.Sprintf("has ETag %s, the %s says %s", clip(etag, 64), p.by, clip(p.etag, 64)))
	}
}

// Doubt names an object that did not exist when it was asked for, and was
// listed after that; empty when there is none. Then there is no verdict: either
// it only just appeared, or the store contradicts itself.
func (c *Completeness) Doubt() string {
	var doubtful []string
	for key, p := range c.promised {
		if p.missing && p.seen {
			doubtful = append(doubtful, key)
		}
	}
	if doubtful == nil {
		return ""
	}
	return c.prefix + clip(slices.Min(doubtful), 128) + " is listed and cannot be read"
}

// Verdict is empty when the checkpoint is complete, else it says what is
// missing or differs, and names the object.
func (c *Completeness) Verdict() string {
	for key, p := range c.promised {
		if !p.seen {
			c.fault(key, fmt.Sprintf("is missing (%d bytes)", p.bytes))
		}
	}
	if len(c.faults) > 0 {
		keys := make([]string, 0, len(c.faults))
		for key := range c.faults {
			keys = append(keys, key)
		}
		first := slices.Min(keys)
		text := c.prefix + clip(first, 128) + " " + c.faults[first]
		if more := len(keys) - 1; more > 0 {
			text += fmt.Sprintf("; %d more objects are missing or differ", more)
		}
		return text
	}
	m := c.manifest
	if c.indexesRead == 0 {
		if want := min(int(m.WorldSize), maxIndexes); len(m.Indexes) < want {
			return fmt.Sprintf("%s: %d index objects for %d ranks", c.prefix, len(m.Indexes), m.WorldSize)
		}
		if c.listed != m.Objects || c.listedBytes != m.Bytes {
			return fmt.Sprintf("%s has %d data objects of %d bytes, the manifest says %d of %d",
				c.prefix, c.listed, c.listedBytes, m.Objects, m.Bytes)
		}
		return ""
	}
	for rank := range m.WorldSize {
		if _, ok := c.ranks[rank]; !ok {
			return fmt.Sprintf("%s: %d of %d ranks have an index; rank %d has none", c.prefix, len(c.ranks), m.WorldSize, rank)
		}
	}
	if c.indexed != m.Objects || c.indexedBytes != m.Bytes {
		return fmt.Sprintf("%s: the indexes name %d data objects of %d bytes, the manifest says %d of %d",
			c.prefix, c.indexed, c.indexedBytes, m.Objects, m.Bytes)
	}
	return ""
}

// fault keeps the first fault of an object.
func (c *Completeness) fault(key, what string) {
	if _, known := c.faults[key]; !known {
		c.faults[key] = what
	}
}
