package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock tells the fence of every renewal, and remembers what goes wrong.
type lock struct {
	resourcelock.Interface
	election *Election
	// holder is who had the lease when it was read last.
	holder string
}

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.note(&l.election.read, "read", err, apierrors.IsNotFound)
	if err != nil {
		return nil, nil, err
	}
	l.holder = record.HolderIdentity
	if l.holder != l.Identity() {
		l.election.fence.Revoke()
	}
	l.election.taken.Store(l.holder != "" && l.holder != l.Identity())
	return record, raw, nil
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	err := l.Interface.Create(ctx, record)
	l.note(&l.election.write, "created", err, apierrors.IsAlreadyExists)
	if err == nil {
		l.election.fence.Renewed(sent)
	}
	return err
}

// errNotOurs keeps client-go from giving back a lease that another replica has. It
// reads the lease anew before it gives it back, and does not look whose it is: a
// leader that was stopped for longer than its lease would take it from its
// successor.
var errNotOurs = errors.New("the lease is not ours to give back")

func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	gives := record.HolderIdentity != l.Identity()
	if gives {
		l.election.fence.Close()
		if l.holder != l.Identity() {
			return errNotOurs
		}
	}
	sent := time.Now()
	err := l.Interface.Update(ctx, record)
	l.note(&l.election.write, "updated", err, apierrors.IsConflict)
	if err == nil && !gives {
		l.election.fence.Renewed(sent)
	}
	return err
}

// note remembers an error, unless it is one that is to be expected.
func (l *lock) note(into *atomic.Pointer[error], done string, err error, expected func(error) bool) {
	if err == nil || expected(err) {
		into.Store(nil)
		return
	}
	err = fmt.Errorf("lease %s cannot be %s: %w", l.Describe(), done, err)
	into.Store(&err)
}
