package catalog

import (
	"context"
	"sync"
	"sync/atomic"
)

// fanOut calls do for 0 to n-1 with at most limit goroutines and returns when
// all of them ended. After the first error, which it returns, it begins no more
// and ends the context of those that run.
func fanOut(ctx context.Context, limit, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(limit, n) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
