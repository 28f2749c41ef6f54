package store

import (
	"fmt"
	"slices"
	"strings"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// seekDue moves to the next manifest whose objects have to be compared, and reports
// whether there is one.
func (g *Reading) seekDue() bool {
	for ; g.at < len(g.after.manifests); g.at++ {
		if g.due(g.at) {
			return true
		}
	}
	return false
}

func (g *Reading) due(at int) bool {
	known := g.after.manifests[at]
	if !g.comparable(known) {
		return false
	}
	return known.depth < g.wanted(at) || slices.Contains(g.ask.Recheck, known.manifest.ID) ||
		known.manifest.Incomplete != "" && g.began.Sub(known.manifest.CheckedAt) >= incompleteAge
}

func (g *Reading) comparable(known *knownManifest) bool {
	return known.manifest.Defect == nil && known.manifest.RunID == g.run
}

func (g *Reading) wanted(at int) depth {
	if at < thoroughManifests || g.asked(g.after.manifests[at].manifest.ID) {
		return byIndexes
	}
	sound := 0
	for i := range at {
		if g.comparable(g.after.manifests[i]) {
			sound++
		}
	}
	if sound < thoroughManifests {
		return byIndexes
	}
	return byListing
}

// checkNext compares what the manifest promises with what is listed.
func (g *Reading) checkNext(s *Store) error {
	checked, want := *g.after.manifests[g.at], g.wanted(g.at)
	known := &checked
	g.after.manifests[g.at] = known
	g.at++
	prefix := g.prefix + checkpoint.NewCompleteness(&known.manifest).Prefix()
	if known.depth >= want && sameListing(known.listing, s.listing(prefix)) {
		known.manifest.CheckedAt = g.began
		return nil
	}
	promised, by, err := g.promises(s, known)
	if err != nil || promised == nil {
		return err
	}
	listing := s.listing(prefix)
	if want == byListing {
		if v := judge(s, by, promised, prefix, listing, byListing); v.text == "" {
			g.settle(known, byListing, listing, "")
			return nil
		}
	}
	v := judge(s, by, promised, prefix, listing, byIndexes)
	if v.doubt != "" {
		return &catalog.Error{Kind: checkpoint.Unreachable, Message: v.doubt}
	}
	g.settle(known, byIndexes, listing, v.text)
	return nil
}

func (g *Reading) settle(known *knownManifest, d depth, listing []*Object, text string) {
	known.depth, known.listing = d, listing
	known.manifest.Incomplete, known.manifest.CheckedAt = text, g.began
}

// promises is the manifest with its index objects, and the object that remembers
// verdicts on it; nil when it was deleted or damaged meanwhile.
func (g *Reading) promises(s *Store, known *knownManifest) (*checkpoint.Manifest, *Object, error) {
	promised := known.manifest
	promised.Indexes, known.indexes = known.indexes, nil
	key := g.prefix + "manifests/" + known.manifest.ID + ".json"
	if promised.Indexes != nil {
		return &promised, s.get(key), nil
	}
	o := s.get(key)
	if o == nil {
		if err := g.confirmDeleted(s, key); err != nil {
			return nil, nil, err
		}
		g.settle(known, unchecked, nil, g.below(key)+" was deleted while it was checked")
		return nil, nil, nil
	}
	again := *o.manifest()
	if again.Defect != nil {
		again.CommittedAt = known.manifest.CommittedAt
		known.manifest = again
		return nil, nil, nil
	}
	promised.Indexes = again.Indexes
	return &promised, o, nil
}

func (s *Store) listing(prefix string) (objects []*Object) {
	s.each(prefix, "", func(o *Object) bool {
		objects = append(objects, o)
		return true
	})
	return objects
}

// sameListing reports whether two listings show the same: names, sizes and ETags.
func sameListing(a, b []*Object) bool {
	return slices.EqualFunc(a, b, func(x, y *Object) bool {
		return x == y || x.Key == y.Key && x.ETag == y.ETag && x.Bytes() == y.Bytes()
	})
}

// verdict is what [checkpoint.Completeness] said of a manifest, and of what.
type verdict struct {
	depth            depth
	listing, indexes []*Object
	text, doubt      string
}

// maxVerdicts bounds what an object remembers.
const maxVerdicts = 8

// judge says whether what is listed is what the manifest promises. The object of the
// manifest remembers it for the same objects; nil remembers nothing.
func judge(s *Store, by *Object, promised *checkpoint.Manifest, prefix string, listing []*Object, d depth) verdict {
	v := verdict{depth: d, listing: listing}
	if d == byIndexes {
		v.indexes = make([]*Object, len(promised.Indexes))
		for i, ref := range promised.Indexes {
			v.indexes[i] = s.get(prefix + ref.Key)
		}
	}
	if by == nil || by.Bytes() > checkpoint.MaxDocumentBytes {
		return v.made(promised, prefix)
	}
	by.judging.Lock()
	defer by.judging.Unlock()
	for i := range by.verdicts {
		known := &by.verdicts[i]
		if known.depth == d && slices.Equal(known.listing, listing) && slices.Equal(known.indexes, v.indexes) {
			return *known
		}
	}
	v = v.made(promised, prefix)
	if len(by.verdicts) == maxVerdicts {
		by.verdicts = by.verdicts[:0]
	}
	by.verdicts = append(by.verdicts, v)
	return v
}

func (v verdict) made(promised *checkpoint.Manifest, prefix string) verdict {
	c := checkpoint.NewCompleteness(promised)
	for i, o := range v.indexes {
		ref := promised.Indexes[i]
		most := min(ref.Bytes, checkpoint.MaxIndexBytes)
		switch {
		case o == nil:
			c.Missing(ref)
		case o.Bytes() > most:
			c.Unreadable(ref, tooLarge(o, ref, most))
		default:
			c.Index(ref, o.Data)
		}
	}
	for _, o := range v.listing {
		c.Listed(strings.TrimPrefix(o.Key, prefix), o.Bytes(), o.ETag)
	}
	if v.doubt = c.Doubt(); v.doubt == "" {
		v.text = c.Verdict()
	}
	return v
}

func tooLarge(o *Object, ref checkpoint.IndexRef, most int64) string {
	if o.Bytes() != ref.Bytes {
		return fmt.Sprintf("has %d bytes, the manifest says %d", o.Bytes(), ref.Bytes)
	}
	return (&catalog.TooLargeError{Bytes: o.Bytes(), Max: most}).Error()
}
