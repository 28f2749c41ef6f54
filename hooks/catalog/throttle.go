package catalog

import (
	"context"
	"iter"
)

// throttled bounds the requests to a store that are under way. The body of a
// loop over a listing must not ask the store for anything else.
type throttled struct {
	Store
	slots chan struct{}
}

func (t *throttled) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := t.enter(ctx); err != nil {
			yield(Object{}, err)
			return
		}
		defer t.leave()
		for o, err := range t.Store.List(ctx, prefix) {
			if !yield(o, err) {
				return
			}
		}
	}
}

func (t *throttled) Get(ctx context.Context, key string, maxBytes int64) ([]byte, Object, error) {
	if err := t.enter(ctx); err != nil {
		return nil, Object{}, err
	}
	defer t.leave()
	return t.Store.Get(ctx, key, maxBytes)
}

func (t *throttled) enter(ctx context.Context) error {
	select {
	case t.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *throttled) leave() { <-t.slots }
