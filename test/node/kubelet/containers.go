package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/test/node/sandbox"
)

const (
	terminationFile = "termination-log"

	// Back-off between restarts of a container, as a kubelet's.
	restartDelay    = 10 * time.Second
	maxRestartDelay = 5 * time.Minute
	// A container that ran for this long starts over with restartDelay.
	restartReset = 10 * time.Minute
)

// waiting is why a container does not run, and when that is looked at again.
type waiting struct {
	reason, message string
	retry           time.Time
	delay           time.Duration
}

// again is the next attempt's waiting: the delay doubles up to most.
func (w *waiting) again(reason string, err error, least, most time.Duration) *waiting {
	delay := least
	if w != nil && w.delay > 0 {
		delay = min(2*w.delay, most)
	}
	return &waiting{reason: reason, message: err.Error(), retry: time.Now().Add(delay), delay: delay}
}

// container is one container of a pod, over all its restarts.
type container struct {
	spec    *corev1.Container
	init    bool
	attempt int // the restart count
	box     *sandbox.Container
	exit    *sandbox.Exit // of box; nil while it runs
	lost    *sandbox.Exit // a container that the API knows and this node does not
	// known is how that container ended, if the API knows.
	known   *corev1.ContainerStateTerminated
	last    *sandbox.Exit // the end before the current attempt
	lastRun sandbox.Run   // and its start
	waiting *waiting      // why there is no box
	restart *waiting      // the back-off before the next attempt
	stop    *stop         // not nil: box is being stopped
	probes  context.CancelFunc
	watch   context.CancelFunc
	// adopted status, until probes have a result of their own
	wasReady, wasStarted bool
}

func (c *container) running() bool { return c.box != nil && c.exit == nil }

func (c *container) ended() *sandbox.Exit {
	if c.lost != nil {
		return c.lost
	}
	return c.exit
}

func (w *worker) containerDir(name string) string { return filepath.Join(w.dir, containersDir, name) }

// loadContainers finds what an earlier node left of the containers.
func (w *worker) loadContainers(specs []corev1.Container, statuses []corev1.ContainerStatus, init bool) ([]*container, error) {
	var all []*container
	for i := range specs {
		c := &container{spec: &specs[i], init: init}
		all = append(all, c)
		if err := w.loadContainer(c); err != nil {
			return nil, err
		}
		for _, s := range statuses {
			if s.Name != c.spec.Name {
				continue
			}
			c.wasReady, c.wasStarted = s.Ready, s.Started != nil && *s.Started
			if c.box == nil && (s.State.Running != nil || s.State.Terminated != nil) {
				// It ran and its directory is gone. It may not run twice.
				c.attempt = int(s.RestartCount)
				c.lost = &sandbox.Exit{Code: sandbox.CodeLost, Lost: true, FinishedAt: time.Now()}
				if t := s.State.Terminated; t != nil {
					c.lost, c.known = &sandbox.Exit{Code: int(t.ExitCode), FinishedAt: t.FinishedAt.Time}, t.DeepCopy()
				}
			}
		}
	}
	return all, nil
}

func (w *worker) loadContainer(c *container) error {
	attempts, err := attemptsIn(w.containerDir(c.spec.Name))
	if err != nil {
		return err
	}
	for i, n := range attempts {
		dir := filepath.Join(w.containerDir(c.spec.Name), strconv.Itoa(n))
		box, err := sandbox.Open(dir)
		if errors.Is(err, sandbox.ErrNotStarted) {
			if err := sandbox.RemoveTree(dir); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		exit, err := box.Ended()
		if err != nil {
			return err
		}
		if i < len(attempts)-1 && exit != nil {
			c.last, c.lastRun = exit, box.Run()
		}
		c.attempt, c.box, c.exit = n, box, exit
	}
	if c.running() {
		w.watchContainer(c)
	}
	return nil
}

// loadFromDir makes containers of what the pod's directory holds, for a pod of
// which nothing else is known.
func (w *worker) loadFromDir() error {
	if w.mains != nil {
		return w.collect()
	}
	names, err := os.ReadDir(filepath.Join(w.dir, containersDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, d := range names {
		c := &container{spec: &corev1.Container{Name: d.Name()}}
		if err := w.loadContainer(c); err != nil {
			return err
		}
		w.mains = append(w.mains, c)
	}
	return nil
}

// attemptsIn lists the restart counts of which a container's directory holds
// something, in order.
func attemptsIn(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var attempts []int
	for n := 0; len(attempts) < len(entries); n++ {
		if _, serr := os.Stat(filepath.Join(dir, strconv.Itoa(n))); serr == nil {
			attempts = append(attempts, n)
		} else if n > 1<<20 {
			return nil, fmt.Errorf("%s holds something else than attempts", dir)
		}
	}
	return attempts, err
}

// watchContainer wakes the worker when the container ends.
func (w *worker) watchContainer(c *container) {
	ctx, cancel := context.WithCancel(w.ctx)
	c.watch = cancel
	box := c.box
	w.running.Go(func() {
		_, _ = box.Wait(ctx) // the worker reads the same record
		w.poke()
	})
}

// collect notices containers that have ended.
func (w *worker) collect() error {
	for _, c := range w.all() {
		if !c.running() {
			continue
		}
		exit, err := c.box.Ended()
		if err != nil {
			return err
		}
		if exit == nil {
			continue
		}
		c.exit, c.stop = exit, nil
		w.endWatches(c)
		// Logs are kept; what it wrote to its root is not.
		if err := c.box.Trim(); err != nil {
			w.Log.Warn("remove a container's layers", "error", err)
		}
	}
	return nil
}

func (w *worker) endWatches(c *container) {
	for _, cancel := range []context.CancelFunc{c.watch, c.probes} {
		if cancel != nil {
			cancel()
		}
	}
	c.watch, c.probes = nil, nil
}

func (w *worker) all() []*container { return append(append([]*container(nil), w.inits...), w.mains...) }

func (w *worker) anyRunning() bool {
	for _, c := range w.all() {
		if c.running() {
			return true
		}
	}
	return false
}

// ensure starts or restarts a container, if it should run. It returns true for
// an init container that has done its work.
func (w *worker) ensure(ctx context.Context, c *container) bool {
	if c.running() {
		w.watchProbes(ctx, c)
		return false
	}
	if end := c.ended(); end != nil {
		if c.init && end.Code == 0 {
			return true
		}
		if !w.restarts(c, end) {
			return false
		}
		if c.restart == nil {
			c.restart = w.backOff(c, end)
		}
		if time.Now().Before(c.restart.retry) {
			w.dueAt(c.restart.retry)
			return false
		}
		c.last, c.lastRun = end, sandbox.Run{}
		if c.box != nil {
			c.lastRun = c.box.Run()
		}
		c.attempt++
		c.box, c.exit, c.lost, c.known, c.wasReady, c.wasStarted = nil, nil, nil, nil, false, false
		w.inputs.Lock()
		delete(w.results, c)
		w.inputs.Unlock()
		w.forgetOld(c)
	}
	if c.waiting != nil && time.Now().Before(c.waiting.retry) {
		w.dueAt(c.waiting.retry)
		return false
	}
	w.startContainer(ctx, c)
	if c.waiting != nil {
		w.dueAt(c.waiting.retry)
	}
	return false
}

func (w *worker) restarts(c *container, end *sandbox.Exit) bool {
	switch w.pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return end.Code != 0
	}
	// An init container that is done is done under every policy.
	return !c.init || end.Code != 0
}

func (w *worker) backOff(c *container, end *sandbox.Exit) *waiting {
	// The first restart is immediate.
	delay := time.Duration(0)
	for n := range min(c.attempt, 10) {
		delay = min(restartDelay<<n, maxRestartDelay)
	}
	if c.box != nil && c.attempt > 0 && end.FinishedAt.Sub(c.box.Run().StartedAt) > restartReset {
		delay = restartDelay
	}
	if delay > 0 {
		w.event(corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s", c.spec.Name))
	}
	return &waiting{
		reason: "CrashLoopBackOff", message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
			delay, c.spec.Name, w.rec.Name, w.rec.Namespace, w.rec.UID),
		retry: end.FinishedAt.Add(delay),
	}
}

// forgetOld removes all but the last attempt, whose log can still be read.
func (w *worker) forgetOld(c *container) {
	attempts, err := attemptsIn(w.containerDir(c.spec.Name))
	for _, n := range attempts {
		if n < c.attempt-1 {
			err = errors.Join(err, sandbox.RemoveTree(filepath.Join(w.containerDir(c.spec.Name), strconv.Itoa(n))))
		}
	}
	if err != nil {
		w.Log.Warn("remove old attempts of a container", "error", err)
	}
}

// startContainer starts the container once; if it cannot, waiting says why.
func (w *worker) startContainer(ctx context.Context, c *container) {
	spec, reason, err := w.sandboxSpec(ctx, c)
	if err == nil {
		var box *sandbox.Container
		dir := filepath.Join(w.containerDir(c.spec.Name), strconv.Itoa(c.attempt))
		if box, err = sandbox.Create(dir, spec); err == nil {
			c.box, c.waiting, c.restart, c.stop = box, nil, nil, nil
			w.watchContainer(c)
			w.poke() // it may have ended already
			w.event(corev1.EventTypeNormal, "Started", "Started container "+c.spec.Name)
			return
		}
		reason = "CreateContainerError"
		err = errors.Join(err, sandbox.RemoveTree(dir))
	}
	if ctx.Err() != nil {
		return
	}
	if reason == errImagePull && c.waiting != nil {
		reason = "ImagePullBackOff"
	}
	least, most := time.Second, 10*time.Second
	if reason == errImagePull || reason == "ImagePullBackOff" {
		least, most = 10*time.Second, maxRestartDelay
	}
	c.waiting = c.waiting.again(reason, err, least, most)
	w.event(corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
}

const errImagePull = "ErrImagePull"
