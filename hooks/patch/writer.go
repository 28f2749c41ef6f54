package patch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
)

// Options of [New].
type Options struct {
	// Client reads and writes live. Required.
	Client dynamic.Interface
	// SyncAgain is asked to have a job synced again, after a patch failed or a
	// precondition did not hold yet; nil: nobody is.
	SyncAgain func(namespace, name string)
	// Count is told of every patch that was tried; nil: nobody is.
	Count func(patch string, result Result)
	// Logger of failures; nil: nobody is told.
	Logger *slog.Logger
}

// Writer carries out patches. It may be used concurrently.
type Writer struct {
	options Options
	logger  *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup
	made    Made

	mu     sync.Mutex
	closed bool
	queues map[types.UID]*queue
}

// queue holds the round of one job that waits.
type queue struct{ next chan []compose.Patch }

// New returns a Writer. Close ends it.
func New(options Options) *Writer {
	w := &Writer{options: options, logger: options.Logger, queues: map[types.UID]*queue{}}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Close stops at once and waits until nothing is written any more. Patches that
// were not made are lost, which is what the next sync is for.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.workers.Wait()
}

// Submit hands over the patches of the newest decision about a job, none included.
// It does not wait.
func (w *Writer) Submit(parent *v1beta1.ResumableTrainingJob, patches []compose.Patch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	q := w.queues[parent.UID]
	if q == nil {
		if len(patches) == 0 {
			return
		}
		q = &queue{next: make(chan []compose.Patch, 1)}
		w.queues[parent.UID] = q
		j := Job{parent.Namespace, parent.Name, parent.UID}
		w.workers.Go(func() { w.work(j, q) })
	}
	select {
	case <-q.next: // Replaced by the newer one.
	default:
	}
	q.next <- patches
}

// work makes the rounds of one job until none has come for a while.
func (w *Writer) work(j Job, q *queue) {
	var pace Pace
	for {
		patches, ok := w.take(q, pace.Wait)
		if w.ctx.Err() != nil {
			return
		}
		switch {
		case ok:
			pace.After(w.round(j, patches))
		case pace.Again:
			pace.Waited()
			if w.options.SyncAgain != nil {
				w.options.SyncAgain(j.Namespace, j.Name)
			}
		case w.remove(j, q):
			return
		default:
			pace = Pace{}
		}
	}
}

// take waits for a round.
func (w *Writer) take(q *queue, wait time.Duration) ([]compose.Patch, bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case patches := <-q.next:
		return patches, true
	default:
	}
	select {
	case patches := <-q.next:
		return patches, true
	case <-timer.C:
	case <-w.ctx.Done():
	}
	return nil, false
}

// remove ends a queue, unless a round came meanwhile.
func (w *Writer) remove(j Job, q *queue) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(q.next) > 0 {
		return false
	}
	delete(w.queues, j.UID)
	return true
}

// round makes the patches of one decision, in order; one that is not made does
// not keep back those after it. It returns what is worst to be known.
func (w *Writer) round(j Job, patches []compose.Patch) Result {
	worst := Done
	for _, p := range patches {
		result, err := w.make(j, p)
		if w.ctx.Err() != nil {
			return worst
		}
		if w.options.Count != nil {
			w.options.Count(p.Name, result)
		}
		attributes := []any{"namespace", j.Namespace, "name", j.Name, "patch", p.Name, "object", p.Target.Resource + "/" + p.Target.Name}
		worst = Worse(worst, result)
		switch result {
		case Failed:
			w.logger.Error("patch failed", append(attributes, "error", err)...)
		case PodsLeft:
			w.logger.Debug("patch not made, pods are left, or Jobs that may make one", attributes...)
		case Lost:
			w.logger.Debug("patch not made, it was decided upon an older state", append(attributes, "error", err)...)
		case Done:
			w.logger.Debug("patch made", attributes...)
		}
	}
	return worst
}
