package kubelet

import (
	"context"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stop is how far the end of a container that is stopped has come.
type stop struct {
	deadline time.Time
	// hook is closed when the preStop hook is over; nil without one.
	hook           chan struct{}
	signalled, cut bool
}

// stopRunning starts the end of all running containers; one that is stopped
// already can only get less time.
func (w *worker) stopRunning(ctx context.Context, deadline time.Time) {
	for _, c := range w.all() {
		if c.running() {
			w.stopContainer(ctx, c, deadline)
		}
	}
}

func (w *worker) stopContainer(ctx context.Context, c *container, deadline time.Time) {
	if c.stop != nil {
		if deadline.Before(c.stop.deadline) {
			c.stop.deadline = deadline
		}
		return
	}
	c.stop = &stop{deadline: deadline}
	w.event(corev1.EventTypeNormal, "Killing", "Stopping container "+c.spec.Name)
	if l := c.spec.Lifecycle; l != nil && l.PreStop != nil {
		c.stop.hook = make(chan struct{})
		box, over := c.box, c.stop.hook
		hook, container, pod, ip := l.PreStop, c.spec, w.pod, w.rec.IP.String()
		w.running.Go(func() {
			defer w.poke()
			defer close(over)
			limited, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			if err := runHook(limited, hook, container, box, ip); err != nil {
				w.events.Event(pod, corev1.EventTypeWarning, "FailedPreStopHook", err.Error())
			}
		})
	}
}

// pursueStops sends the signals that are due: SIGTERM once the preStop hook is
// over, SIGKILL at the deadline.
func (w *worker) pursueStops() {
	for _, c := range w.all() {
		if !c.running() || c.stop == nil {
			continue
		}
		s := c.stop
		hooked := s.hook != nil
		if hooked {
			select {
			case <-s.hook:
				hooked = false
			default:
			}
		}
		if !hooked && !s.signalled {
			w.signal(c, syscall.SIGTERM)
			s.signalled = true
		}
		if s.cut {
			continue
		}
		if time.Now().Before(s.deadline) {
			w.dueAt(s.deadline)
			continue
		}
		w.signal(c, syscall.SIGKILL)
		s.cut = true
	}
}

func (w *worker) signal(c *container, sig syscall.Signal) {
	if err := c.box.Signal(sig); err != nil {
		w.Log.Error("signal a container", "pod", w.rec.Name, "container", c.spec.Name, "signal", sig, "error", err)
	}
}
