package manager

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/metacontroller/applier"
)

// The reasons of events about a CompositeController.
const (
	// ReasonStarted: its parents are synced.
	ReasonStarted = "Started"
	// ReasonRefused: it is not run; the message says why.
	ReasonRefused = "Refused"
)

const (
	firstRetry = 2 * time.Second
	maxRetry   = 2 * time.Minute
	// readyPoll is how often a controller that starts is looked at.
	readyPoll = 50 * time.Millisecond
)

// state of a controller, for readiness and metrics.
type state string

const (
	starting state = "starting"
	running  state = "running"
	refused  state = "refused"
	stopped  state = "stopped"
)

// desired is what should be run under a name.
type desired struct {
	// controller, unless it cannot be read.
	controller *applier.CompositeController
	// fault is why it cannot be run as it stands.
	fault error
	// object of the cluster, nil for a controller that was given.
	object *unstructured.Unstructured
	// gone says that the object is not there any more.
	gone bool
}

// same tells whether nothing that matters has changed: uid and generation, which
// counts the edits of the spec, and annotations, so that an annotation is a way
// to have a controller restarted.
func (d desired) same(other desired) bool {
	if d.gone || other.gone || d.object == nil || other.object == nil {
		return false
	}
	return d.object.GetUID() == other.object.GetUID() && d.object.GetGeneration() == other.object.GetGeneration() &&
		maps.Equal(d.object.GetAnnotations(), other.object.GetAnnotations())
}

// instance is one controller. Its goroutine starts and stops appliers, one at a
// time.
type instance struct {
	manager *Manager
	name    string
	logger  *slog.Logger
	// next is what is wanted and was not yet begun.
	next chan desired
	// state is guarded by the manager's lock.
	state state
}

func (i *instance) set(s state) {
	i.manager.mu.Lock()
	defer i.manager.mu.Unlock()
	i.state = s
}

// supervise does what is wanted until ctx ends or the controller is gone.
func (i *instance) supervise(ctx context.Context) {
	var (
		d        desired
		run      *appliance
		failures int
		retry    <-chan time.Time
		// ran is the last controller that was run, for its finalizer.
		ran *applier.CompositeController
	)
	defer func() { run.stop() }()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		var polled <-chan time.Time
		if run != nil && !run.ready {
			polled = poll.C
		}
		select {
		case <-ctx.Done():
			return
		case next := <-i.next:
			if next.same(d) {
				d = next
				continue
			}
			run.stop()
			d, run, retry, failures = next, nil, nil, 0
			if d.gone {
				i.set(stopped)
				i.logger.Info("stopped: its CompositeController is gone, or not selected any more")
				retry = time.After(i.manager.releaseDelay)
				continue
			}
			i.set(starting)
		case <-polled:
			if run.applier.Ready() {
				run.ready, failures = true, 0
				i.set(running)
				i.event(d, applier.EventNormal, ReasonStarted, "its parents are synced")
			}
			continue
		case <-run.done():
			err := run.err
			run.stop()
			run = nil
			if err == nil {
				return // ctx ended
			}
			failures++
			retry = i.refuse(d, err, failures)
			continue
		case <-retry:
			retry = nil
		}
		switch {
		case d.gone:
			if err := i.manager.abandon(ctx, i.logger, ran); err != nil {
				failures++
				wait := backoff(failures)
				i.logger.Warn("finalizers not removed from parents", "error", err, "retryIn", wait)
				retry = time.After(wait)
			} else if i.manager.remove(i) {
				return
			}
		case d.fault != nil:
			i.refuse(d, d.fault, 0)
		default:
			var err error
			run, err = i.start(ctx, d.controller)
			var wrong *invalid
			switch {
			case errors.As(err, &wrong):
				i.refuse(d, err, 0)
				continue
			case err != nil:
				failures++
				retry = i.refuse(d, err, failures)
				continue
			}
			ran = d.controller
		}
	}
}

// refuse tells why a controller is not run, and when it is tried again after so
// many failures; never after none.
func (i *instance) refuse(d desired, err error, failures int) <-chan time.Time {
	i.set(refused)
	i.event(d, applier.EventWarning, ReasonRefused, err.Error())
	if failures == 0 {
		i.logger.Error("CompositeController refused", "error", err)
		return nil
	}
	wait := backoff(failures)
	i.logger.Error("CompositeController refused", "error", err, "retryIn", wait)
	return time.After(wait)
}

func backoff(failures int) time.Duration { return min(firstRetry<<min(failures-1, 10), maxRetry) }

func (i *instance) event(d desired, eventType, reason, message string) {
	if i.manager.options.Events != nil && d.object != nil {
		i.manager.options.Events.Event(d.object, eventType, reason, applier.EventMessage(message))
	}
}

// invalid is what only an edit of the controller can mend.
type invalid struct{ err error }

func (e *invalid) Error() string { return e.err.Error() }
func (e *invalid) Unwrap() error { return e.err }

// appliance is an applier that runs, with what it needs.
type appliance struct {
	applier *applier.Applier
	hooks   Hooks
	metrics *lentRegisterer
	cancel  context.CancelFunc
	ready   bool
	// err is why it ended by itself, once ended is closed.
	err   error
	ended chan struct{}
}

func (i *instance) start(ctx context.Context, c *applier.CompositeController) (*appliance, error) {
	o := i.manager.options
	hooks, err := o.Hooks(c)
	if err != nil {
		return nil, &invalid{err}
	}
	options := applier.Options{
		Config: o.Config, Controller: c, Hooks: hooks, Workers: o.Workers, Limits: o.Limits, Writes: i.manager.writes,
		Logger: o.Logger, Events: o.Events,
	}
	run := &appliance{hooks: hooks, metrics: &lentRegisterer{Registerer: o.Registerer}, ended: make(chan struct{})}
	if o.Registerer != nil {
		options.Registerer = run.metrics
	}
	if run.applier, err = applier.New(options); err != nil {
		hooks.Close()
		run.metrics.takeBack()
		return nil, err
	}
	ctx, run.cancel = context.WithCancel(ctx)
	go func() {
		defer close(run.ended)
		run.err = run.applier.Run(ctx)
	}()
	return run, nil
}

// done is closed when the applier has ended by itself.
func (r *appliance) done() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.ended
}

// stop returns when the applier has stopped and nothing of it is left.
func (r *appliance) stop() {
	if r == nil {
		return
	}
	r.cancel()
	<-r.ended
	r.hooks.Close()
	r.metrics.takeBack()
}

// lentRegisterer takes its metrics back, so that the next applier of the same
// name can register its own.
type lentRegisterer struct {
	prometheus.Registerer
	lent []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (r *lentRegisterer) Register(c prometheus.Collector) error {
	err := r.Registerer.Register(c)
	if err == nil {
		r.lent = append(r.lent, c)
	}
	return err
}

func (r *lentRegisterer) takeBack() {
	for _, c := range r.lent {
		r.Unregister(c)
	}
}
