package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

// DefaultMaxResponseBytes is the size of the largest answer, unless another is
// set.
const DefaultMaxResponseBytes = 32 << 20

// Options for [New].
type Options struct {
	// Controller says where the hooks are.
	Controller *applier.CompositeController
	// Client reads the Secrets and ConfigMaps that the controller names, each with
	// a GET. It may be nil if it names none.
	Client dynamic.Interface
	// Logger, slog.Default() by default.
	Logger *slog.Logger
	// MaxResponseBytes is the size of the largest answer, after decompression;
	// [DefaultMaxResponseBytes] if it is 0.
	MaxResponseBytes int64
}

// Hooks are the hooks of one CompositeController, reached over HTTP. They
// implement [applier.Hooks].
type Hooks struct {
	// A hook that the controller does not have is nil.
	sync, finalize, customize *hook
	self                      *self
	connections               []*connection
	stop                      context.CancelFunc
	running                   sync.WaitGroup
}

var (
	_ applier.Hooks    = (*Hooks)(nil)
	_ applier.Changing = (*Hooks)(nil)
)

// Validate refuses what [New] refuses for whatever client. The error names every
// field that is at fault.
func Validate(c *applier.CompositeController) error {
	_, _, err := prepare(Options{Controller: c, Logger: slog.New(slog.DiscardHandler)})
	return err
}

// New prepares to call the hooks of a controller. It reads nothing and calls
// nobody yet. The error names every field that is at fault.
func New(o Options) (*Hooks, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxResponseBytes <= 0 {
		o.MaxResponseBytes = DefaultMaxResponseBytes
	}
	o.MaxResponseBytes = min(o.MaxResponseBytes, math.MaxInt64-1) // one more is read
	o.Logger = o.Logger.With("controller", o.Controller.Name)
	h, kept, err := prepare(o)
	if err != nil {
		return nil, err
	}
	for _, c := range h.connections {
		if named := references(c.settings); o.Client == nil && len(named) > 0 {
			return nil, fmt.Errorf("%s.%s: there is no API client to read %s with", c.field, named[0].field, named[0].object())
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	if cleanup := h.cleanup(); cleanup > 0 {
		h.running.Go(func() { kept.sweepEvery(ctx, cleanup) })
	}
	h.running.Go(func() { h.watchIdentity(ctx) })
	return h, nil
}

// prepare makes hooks for which nothing runs yet.
func prepare(o Options) (*Hooks, *answers, error) {
	if o.Controller.Spec.Hooks == nil {
		return nil, nil, fmt.Errorf("CompositeController %s: spec.hooks: missing", o.Controller.Name)
	}
	h := &Hooks{self: &self{}}
	kept := newAnswers(maxAnswerBytes)
	connections, err := connect(o)
	faults := []error{err}
	add := func(name string, from *applier.Hook) *hook {
		if from == nil {
			return nil
		}
		hook, err := newHook(o, name, from, connections, kept)
		faults = append(faults, err)
		if hook != nil {
			hook.self = h.self
		}
		return hook
	}
	h.sync = add("sync", o.Controller.Spec.Hooks.Sync)
	h.finalize = add("finalize", o.Controller.Spec.Hooks.Finalize)
	h.customize = add("customize", o.Controller.Spec.Hooks.Customize)
	h.connections = connections.all
	connections.noteUnused()
	return h, kept, errors.Join(faults...)
}

// Close gives back what is held: idle connections and kept answers. It must not
// be called while a hook is called.
func (h *Hooks) Close() {
	h.stop()
	h.running.Wait()
	for _, c := range h.connections {
		c.close()
	}
}

// Sync implements [applier.Hooks].
func (h *Hooks) Sync(ctx context.Context, request *contract.SyncRequest) (*contract.SyncResponse, error) {
	return h.sync.decide(ctx, request)
}

// Finalize implements [applier.Hooks].
func (h *Hooks) Finalize(ctx context.Context, request *contract.SyncRequest) (*contract.SyncResponse, error) {
	return h.finalize.decide(ctx, request)
}

// Customize implements [applier.Hooks].
func (h *Hooks) Customize(ctx context.Context, request *contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
	return h.customize.choose(ctx, request)
}

// cleanup is how often kept answers that are too old are to be dropped: as often
// as any hook wants it, 0 if no answers are kept.
func (h *Hooks) cleanup() time.Duration {
	var least time.Duration
	for _, hook := range []*hook{h.sync, h.finalize, h.customize} {
		if hook != nil && hook.kept != nil && (least == 0 || hook.cleanup < least) {
			least = hook.cleanup
		}
	}
	return least
}

// hook is one of the hooks.
type hook struct {
	target
	name    string
	v1      bool
	loose   bool
	timeout time.Duration
	// maxBytes is the size of the largest answer.
	maxBytes   int64
	connection *connection
	// self is shared by the hooks of a controller.
	self *self
	// kept has answers by their ETag; nil: none are kept.
	kept          *answers
	keep, cleanup time.Duration
	logger        *slog.Logger
	now           func() time.Time
}

func newHook(o Options, name string, from *applier.Hook, connections *connections, kept *answers) (*hook, error) {
	field := fmt.Sprintf("CompositeController %s: spec.hooks.%s.webhook", o.Controller.Name, name)
	if from.Webhook == nil {
		return nil, fmt.Errorf("%s: missing: it says where the hook is", field)
	}
	w := from.Webhook
	h := &hook{
		name: name, v1: from.SpeaksV1(), loose: from.SpeaksV1(), timeout: from.Timeout(),
		maxBytes: o.MaxResponseBytes, logger: o.Logger.With("hook", name), now: time.Now,
	}
	var faults []error
	fault := func(at, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s%s: %s", field, at, fmt.Sprintf(format, args...)))
	}
	var err error
	if h.target, err = targetOf(w); err != nil {
		fault("", "%v", err)
	}
	if w.Timeout != nil && w.Timeout.Duration <= 0 {
		h.logger.Warn("the timeout is not above zero, so the default applies", "timeout", h.timeout)
	}
	if mode := w.ResponseUnMarshallMode; mode != nil {
		switch *mode {
		case "strict", "loose":
			h.loose = *mode == "loose"
		default:
			fault(".responseUnMarshallMode", "want strict or loose, got %q", *mode)
		}
	}
	if etag := w.Etag; etag != nil {
		for _, f := range []struct {
			name    string
			seconds *int32
		}{{"cacheTimeoutSeconds", etag.CacheTimeoutSeconds}, {"cacheCleanupSeconds", etag.CacheCleanupSeconds}} {
			if f.seconds != nil && *f.seconds < 0 {
				fault(".etag."+f.name, "must not be below zero")
			}
		}
		if etag.Enabled != nil && *etag.Enabled {
			h.kept = kept
			h.keep = secondsOr(etag.CacheTimeoutSeconds, defaultKeep)
			h.cleanup = secondsOr(etag.CacheCleanupSeconds, max(h.keep, time.Second))
		}
	}
	if h.url != nil {
		if h.connection, err = connections.of(w, h.target, field); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		if err := h.note(); err != nil {
			fault("", "%v", err)
		}
	}
	return h, errors.Join(faults...)
}

func secondsOr(seconds *int32, otherwise time.Duration) time.Duration {
	if seconds == nil || *seconds == 0 {
		return otherwise
	}
	return time.Duration(*seconds) * time.Second
}

// decide calls a sync or finalize hook.
func (h *hook) decide(ctx context.Context, request *contract.SyncRequest) (*contract.SyncResponse, error) {
	if h == nil {
		return nil, errors.New("the controller does not have it")
	}
	parent, err := identify(request.Parent)
	if err != nil {
		return nil, err
	}
	if h.v1 {
		relative := *request
		relative.Children = request.Children.RelativeTo(parent.Namespace)
		relative.Related = request.Related.RelativeTo(parent.Namespace)
		request = &relative
	}
	return post(ctx, h, parent, request.AppendJSON(nil), contract.DecodeSyncResponse, contract.DecodeSyncResponseLoosely)
}

// choose calls a customize hook.
func (h *hook) choose(ctx context.Context, request *contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
	if h == nil {
		return nil, errors.New("the controller does not have it")
	}
	parent, err := identify(request.Parent)
	if err != nil {
		return nil, err
	}
	return post(ctx, h, parent, request.AppendJSON(nil), contract.DecodeCustomizeResponse, contract.DecodeCustomizeResponseLoosely)
}

// identity says which object a parent is.
type identity struct{ Namespace, Name, UID string }

func identify(parent json.RawMessage) (identity, error) {
	var head struct{ Metadata identity }
	if err := json.Unmarshal(parent, &head); err != nil {
		return identity{}, fmt.Errorf("the parent: %w", err)
	}
	return head.Metadata, nil
}
