package hooks

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/hooks/edge"
)

// Options of [New].
type Options struct {
	// Store reads the metadata of runs. Required.
	Store Store
	// Secrets has the credentials of stores; nil: those of this process are used.
	Secrets Secrets
	// Launcher dry-runs the creation of a JobSet that is wanted and not seen; nil:
	// nobody asks why.
	Launcher Launcher
	// Patches carries out patches; nil: nobody does.
	Patches Patcher
	// Observer names this process, in status and to itself.
	Observer string
	// PodIntegration is whether Kueue manages plain pods.
	PodIntegration bool
	// Now is the clock; nil: the system's.
	Now func() time.Time
	// InlineRead is how long an answer waits for the store before it is given
	// without; 0: two seconds.
	InlineRead time.Duration
	// Metrics count; nil: nothing is counted.
	Metrics *Metrics
	// Logger gets one line for each change of a decision; nil: nobody does.
	Logger *slog.Logger
}

// Patcher carries out the patches of decisions.
type Patcher interface {
	// Submit hands over the patches of the newest decision about a job. It does not
	// wait. Patches of an older decision that were not begun are dropped, also if
	// patches is empty.
	Submit(parent *v1beta1.ResumableTrainingJob, patches []compose.Patch)
}

// Hooks answers the three hooks. It may be used concurrently.
type Hooks struct {
	options Options
	now     func() time.Time
	logger  *slog.Logger

	// ctx ends with Close; background holds the readings and dry runs that go on
	// after an answer.
	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup

	wake   func(namespace, name string)
	wakeMu sync.RWMutex

	memories memories
}

// New returns Hooks. Close ends what goes on in the background.
func New(options Options) *Hooks {
	h := &Hooks{options: options, now: options.Now, logger: options.Logger}
	if h.now == nil {
		h.now = time.Now
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	if h.options.InlineRead == 0 {
		h.options.InlineRead = edge.InlineRead
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Close cancels readings and dry runs and waits for them.
func (h *Hooks) Close() {
	h.cancel()
	h.background.Wait()
}

// inBackground runs f beside the answers until it returns; a fault in it is
// logged and ends nothing else.
func (h *Hooks) inBackground(f func()) {
	h.background.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				h.logger.Error("panic in the background", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f()
	})
}

// OnNews sets who is told that something became known about a job outside a sync,
// such as by a reading of the store that took long, so that it is synced again.
func (h *Hooks) OnNews(wake func(namespace, name string)) {
	h.wakeMu.Lock()
	defer h.wakeMu.Unlock()
	h.wake = wake
}

// News has a job synced again soon, by whoever [Hooks.OnNews] named.
func (h *Hooks) News(namespace, name string) {
	h.wakeMu.RLock()
	wake := h.wake
	h.wakeMu.RUnlock()
	if wake != nil && h.ctx.Err() == nil {
		wake(namespace, name)
	}
}

// Answer is the answer to a sync or finalize request, and the decision that it
// was made from.
type Answer struct {
	Observation *compose.Observation
	Decision    *compose.Decision
	Response    *contract.SyncResponse
}

// Sync answers the sync hook and carries out the patches.
func (h *Hooks) Sync(ctx context.Context, request *contract.SyncRequest) (*contract.SyncResponse, error) {
	return h.answerAndPatch(ctx, request, false)
}

// Finalize answers the finalize hook and carries out the patches.
func (h *Hooks) Finalize(ctx context.Context, request *contract.SyncRequest) (*contract.SyncResponse, error) {
	return h.answerAndPatch(ctx, request, true)
}

// Customize answers the customize hook.
func (h *Hooks) Customize(_ context.Context, request *contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
	begun := time.Now()
	parent, err := DecodeParent(request.Parent)
	if err != nil {
		return nil, err
	}
	defer func() { h.options.Metrics.answered("customize", time.Since(begun), nil) }()
	return RelatedTo(parent), nil
}

func (h *Hooks) answerAndPatch(ctx context.Context, request *contract.SyncRequest, finalizing bool) (*contract.SyncResponse, error) {
	answer, err := h.Answer(ctx, request, finalizing)
	if err != nil {
		return nil, err
	}
	h.Patch(answer)
	return answer.Response, nil
}

// Patch carries out the patches of an answer, after it was given. What becomes of
// them shows at the next sync, which a failed one asks for: see [Hooks.OnNews].
func (h *Hooks) Patch(a *Answer) {
	if h.options.Patches != nil {
		h.options.Patches.Submit(a.Observation.Parent, a.Decision.Patches)
	}
}

// Answer decides about a job and writes nothing. Where the decision wants a
// reading of the store, it reads and decides again.
//
// It returns a [*contract.Error] for a request that cannot be understood.
func (h *Hooks) Answer(ctx context.Context, request *contract.SyncRequest, finalizing bool) (*Answer, error) {
	begun := time.Now()
	o, err := h.observe(request, finalizing)
	if err != nil {
		return nil, err
	}
	m := h.memories.of(o.Parent, h.now())

	d, resync := h.decide(ctx, m, o, finalizing)
	response, err := Respond(d, resync)
	if err != nil {
		return nil, err
	}
	h.logChange(m, o, d)
	h.options.Metrics.answered(hookName(finalizing), time.Since(begun), d)
	if d.Finalized {
		h.memories.forget(o.Parent)
	}
	return &Answer{Observation: o, Decision: d, Response: response}, nil
}

// Preview answers as [Hooks.Answer] does, but for someone who is not trusted: from
// what is known already. It reads no Secret and no store, tries no launch and
// remembers nothing, since the request may claim anything.
func (h *Hooks) Preview(request *contract.SyncRequest, finalizing bool) (*Answer, error) {
	begun := time.Now()
	o, err := h.observe(request, finalizing)
	if err != nil {
		return nil, err
	}
	o.Now = h.now()
	if m := h.memories.known(o.Parent); m != nil {
		m.mu.Lock()
		o.Catalog = m.SnapshotOf(edge.PlaceOf(o.Parent))
		m.mu.Unlock()
	}
	d := edge.Decide(o, finalizing)
	response, err := Respond(d, d.ResyncAfter)
	if err != nil {
		return nil, err
	}
	h.options.Metrics.answered(hookName(finalizing), time.Since(begun), nil)
	return &Answer{Observation: o, Decision: d, Response: response}, nil
}

// observe decodes a request; time, catalog and launch probe are left open.
func (h *Hooks) observe(request *contract.SyncRequest, finalizing bool) (*compose.Observation, error) {
	if request.Finalizing != finalizing {
		return nil, wrongHook(finalizing)
	}
	o, err := Observe(request)
	if err != nil {
		return nil, err
	}
	o.Observer = h.options.Observer
	o.PodIntegration = h.options.PodIntegration
	return o, nil
}

// decide decides, waits for what the decision makes necessary, and decides again.
// It returns the decision and when to answer again.
func (h *Hooks) decide(ctx context.Context, m *memory, o *compose.Observation, finalizing bool) (*compose.Decision, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.Begin(o, edge.Asked{Finalizing: finalizing, Launches: h.options.Launcher != nil, Told: h.tells()}, h.now())
	for {
		need := a.Next(&m.Memory, h.now())
		switch {
		case need.Reading != nil:
			m.unlocked(func() { h.read(ctx, m, need.Reading) })
			a.Waited(&m.Memory)
		case need.Launch != nil:
			var probe *compose.LaunchProbe
			m.unlocked(func() { probe = h.tryLaunch(ctx, o.Parent, need.Launch) })
			a.Tried(&m.Memory, probe)
		default:
			return a.Decision, a.ResyncAfter(&m.Memory)
		}
	}
}

// unlocked does something that takes time; the memory may be another afterwards.
func (m *memory) unlocked(f func()) {
	m.mu.Unlock()
	defer m.mu.Lock()
	f()
}

// tells reports whether somebody is told of news, such as that a patch failed.
func (h *Hooks) tells() bool {
	h.wakeMu.RLock()
	defer h.wakeMu.RUnlock()
	return h.wake != nil
}

func hookName(finalizing bool) string {
	if finalizing {
		return "finalize"
	}
	return "sync"
}

// wrongHook is a CompositeController whose URLs are mixed up, which would create
// what is to be deleted.
func wrongHook(finalizing bool) error {
	if finalizing {
		return &contract.Error{Field: "finalizing", Reason: "is false, but this is the finalize hook; a runner sends true to it"}
	}
	return &contract.Error{Field: "finalizing", Reason: "is true, but this is the sync hook; set spec.hooks.finalize of the CompositeController to the finalize hook"}
}
