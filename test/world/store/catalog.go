package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// Opener opens the store as [catalog.Reader] wants it.
func (s *Store) Opener() catalog.Opener {
	return func(l catalog.Location, _ *catalog.Credentials) (catalog.Store, error) {
		return &opened{store: s, root: Root(l.URI)}, nil
	}
}

// opened is the store below a storage URI.
type opened struct {
	store *Store
	root  string
	// before is called at the beginning of every request, for tests.
	before func(op, key string)
}

func (c *opened) List(_ context.Context, prefix string) iter.Seq2[catalog.Object, error] {
	return func(yield func(catalog.Object, error) bool) {
		if c.before != nil {
			c.before("LIST", prefix)
		}
		for after, more := "", true; more; {
			var page []*Object
			var err error
			if page, more, err = c.store.List(c.root+prefix, after, 0); err != nil {
				yield(catalog.Object{}, err)
				return
			}
			for _, o := range page {
				if !yield(c.object(o), nil) {
					return
				}
				after = o.Key
			}
		}
	}
}

func (c *opened) Get(_ context.Context, key string, maxBytes int64) ([]byte, catalog.Object, error) {
	if c.before != nil {
		c.before("GET", key)
	}
	o, err := c.store.Get(c.root + key)
	if err != nil {
		return nil, catalog.Object{}, err
	}
	if o.Bytes() > maxBytes {
		return nil, c.object(o), &catalog.TooLargeError{Bytes: o.Bytes(), Max: maxBytes}
	}
	return o.Data, c.object(o), nil
}

func (c *opened) object(o *Object) catalog.Object {
	return catalog.Object{Key: o.Key[len(c.root):], Bytes: o.Bytes(), ETag: o.ETag, Modified: o.Modified}
}

// Compare makes a reading with the product's Reader too, neither with any memory, and
// returns an error that shows how they differ. It is slow.
func (s *Store) Compare(run catalog.Run, ask catalog.Ask) error {
	real := catalog.NewReader(s.Opener(), catalog.Options{Now: s.env.Now, Timeout: time.Hour})
	return difference(real.Read(context.Background(), run, ask), s.Read(run, ask))
}

func difference(want, got *checkpoint.Snapshot) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the product's reading (-) and the world's (+) differ:\n%s", diff)
	}
	return nil
}
