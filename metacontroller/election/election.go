package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The defaults of [Options], those of Kubernetes' own controllers.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// Options of [New].
type Options struct {
	// Config reaches the API server. It must not be fenced.
	Config *rest.Config
	// Fence is before the transport of all other clients of this process. Its
	// validity is the RenewDeadline.
	Fence *Fence
	// Namespace and Name of the Lease.
	Namespace, Name string
	// Identity tells this process from all others, also from earlier ones of the
	// same replica.
	Identity string
	// LeaseDuration is how long others wait after the last renewal of a leader that
	// does not give the lease back.
	LeaseDuration time.Duration
	// RenewDeadline is how long after its last renewal a leader still writes; less
	// than LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is how often the lease is renewed, or looked at.
	RetryPeriod time.Duration
	// Events, if set, is told on the Lease who became leader.
	Events resourcelock.EventRecorder
	// Logger, slog.Default() by default.
	Logger *slog.Logger
}

// Election contends for a Lease.
type Election struct {
	options Options
	logger  *slog.Logger
	fence   *Fence
	leases  coordinationclient.LeasesGetter
	watches coordinationclient.LeasesGetter
	leading atomic.Bool
	// taken says that the lease was someone else's when it was read last.
	taken atomic.Bool
	// read and write are why the lease could not be read or written last.
	read, write atomic.Pointer[error]
}

// LostError says that the lease may be someone else's.
type LostError struct{ text string }

func (e *LostError) Error() string { return e.text }

// New returns an Election that does not contend yet.
func New(o Options) (*Election, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	watches, err := coordinationclient.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(o.Config)
	// One request that hangs must not cost the lease.
	config.Timeout = max(o.RenewDeadline/2, time.Second)
	leases, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	e := &Election{
		options: o,
		logger:  o.Logger.With("lease", o.Namespace+"/"+o.Name, "identity", o.Identity),
		fence:   o.Fence,
		leases:  leases,
		watches: watches,
	}
	unread := errors.New("the lease has not been read yet")
	e.read.Store(&unread)
	if _, err := e.elector(func(context.Context) {}); err != nil {
		return nil, err
	}
	return e, nil
}

// Leading tells whether this replica holds the lease.
func (e *Election) Leading() bool { return e.leading.Load() }

// Standby returns nil if this replica can take over: it has seen the lease, and was
// not refused to write it. A standby counts as ready, since a rolling update waits
// for a new replica to be ready before the old one, which holds the lease, is
// ended.
func (e *Election) Standby() error {
	for _, err := range []*error{e.read.Load(), e.write.Load()} {
		if err != nil {
			return *err
		}
	}
	return nil
}

// Run contends until this replica leads, calls lead, and returns when that has
// returned and the lease is given back. If the lease is lost while lead runs, its
// context ends and the error is a *LostError.
func (e *Election) Run(ctx context.Context, lead func(context.Context) error) error {
	// The lease is kept beyond ctx, until lead has written its last.
	holding, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	elected, err := e.contend(ctx, holding)
	if err != nil || elected == nil {
		return err
	}
	e.leading.Store(true)
	defer e.leading.Store(false)
	e.logger.Info("leading")

	work, stop := context.WithCancel(ctx)
	defer stop()
	var result error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result = lead(work)
	}()
	lost := false
	select {
	case <-ended:
	case <-e.fence.Lost():
		lost = true
	case <-elected:
		lost = true
	}
	if lost {
		e.logger.Error("the lease is lost; nothing is written any more")
	}
	stop()
	<-ended
	e.fence.Close()
	giveBack()
	<-elected
	if lost {
		return &LostError{fmt.Sprintf("lease %s/%s could not be renewed for %s, so another replica may act; this one must start again",
			e.options.Namespace, e.options.Name, e.options.RenewDeadline)}
	}
	if result == nil {
		e.logger.Info("gave the lease back")
	}
	return result
}

// contend returns once the lease is held, with a channel that closes when it is
// not any more; nil if ctx ended before.
func (e *Election) contend(ctx, holding context.Context) (elected <-chan struct{}, err error) {
	for {
		started := make(chan struct{})
		elector, err := e.elector(func(context.Context) { close(started) })
		if err != nil {
			return nil, err
		}
		attempt, giveUp := context.WithCancel(holding)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			elector.Run(attempt)
		}()
		watching, stopWatching := context.WithCancel(ctx)
		var watcher sync.WaitGroup
		given := make(chan struct{}, 1)
		watcher.Go(func() { e.watch(watching, given) })
		select {
		case <-started:
		case <-given:
		case <-ctx.Done():
		}
		stopWatching()
		watcher.Wait()
		select {
		case <-started:
			context.AfterFunc(holding, giveUp)
			return ended, nil
		default:
		}
		// An elector looks only every few seconds, and at once when it is new.
		giveUp()
		<-ended
		if ctx.Err() != nil {
			return nil, nil
		}
	}
}

func (e *Election) elector(started func(context.Context)) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: e.options.Name,
		Lock: &lock{
			Interface: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: e.options.Namespace, Name: e.options.Name},
				Client:     e.leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: e.options.Identity, EventRecorder: e.options.Events},
			},
			election: e,
		},
		LeaseDuration:   e.options.LeaseDuration,
		RenewDeadline:   e.options.RenewDeadline,
		RetryPeriod:     e.options.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: started,
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != "" && identity != e.options.Identity {
					e.logger.Info("standby", "leader", identity)
				}
			},
		},
	})
}

// watch sends once the lease is given back. It may miss that; then the elector
// finds out by itself, a little later.
func (e *Election) watch(ctx context.Context, given chan<- struct{}) {
	for ctx.Err() == nil {
		w, err := e.watches.Leases(e.options.Namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", e.options.Name).String(),
		})
		if err == nil {
			for event := range w.ResultChan() {
				lease, ok := event.Object.(*coordinationv1.Lease)
				if ok && e.taken.Load() && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
					w.Stop()
					given <- struct{}{}
					return
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(e.options.RetryPeriod):
		}
	}
}
