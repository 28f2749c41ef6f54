package applier

import (
	"context"
	"fmt"

	"rtj.dev/rtj/hooks/contract"
)

// Defaults of [Limits].
const (
	DefaultChildren      = 5000
	DefaultResponseBytes = 32 << 20
	DefaultParentWrites  = 4
	DefaultTurnWrites    = 100
	DefaultWrites        = 32
)

// Limits bound what one parent can cost, so that it takes neither the memory nor
// the time of all others. What is not above zero means the default.
type Limits struct {
	// Children that one answer may hold, 5,000 by default. An answer with more is
	// refused.
	Children int
	// ResponseBytes is how long status and children of one answer may be together,
	// as JSON, 32 MiB by default. A longer answer is refused.
	ResponseBytes int64
	// ParentWrites is how many children of one parent are written at once, 4 by
	// default.
	ParentWrites int
	// TurnWrites is after how many written children a sync ends, to be continued
	// when the other parents that wait had their turn, 100 by default.
	TurnWrites int
}

func (l Limits) withDefaults() Limits {
	or := func(value *int, otherwise int) {
		if *value <= 0 {
			*value = otherwise
		}
	}
	or(&l.Children, DefaultChildren)
	or(&l.ParentWrites, DefaultParentWrites)
	or(&l.TurnWrites, DefaultTurnWrites)
	if l.ResponseBytes <= 0 {
		l.ResponseBytes = DefaultResponseBytes
	}
	return l
}

// check refuses an answer that is too large.
func (l Limits) check(response *contract.SyncResponse) error {
	if n := len(response.Children); n > l.Children {
		return fmt.Errorf("%d children, and the limit is %d (Children)", n, l.Children)
	}
	bytes := int64(len(response.Status))
	for _, child := range response.Children {
		bytes += int64(len(child))
	}
	if bytes > l.ResponseBytes {
		return fmt.Errorf("status and children are %d bytes long, and the limit is %d (ResponseBytes)", bytes, l.ResponseBytes)
	}
	return nil
}

// WriteLimit bounds how many requests that write are under way at once. Those who
// wait are served in the order in which they came.
type WriteLimit struct{ slots chan struct{} }

// NewWriteLimit makes a limit, to be shared by all appliers of a process.
func NewWriteLimit(atOnce int) *WriteLimit {
	if atOnce <= 0 {
		atOnce = DefaultWrites
	}
	return &WriteLimit{make(chan struct{}, atOnce)}
}

func (l *WriteLimit) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *WriteLimit) leave() { <-l.slots }
