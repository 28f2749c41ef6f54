package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
)

// DefaultMaxBytes is the size of the largest request, unless another is set.
const DefaultMaxBytes = 16 << 20

// Options of [NewHandler].
type Options struct {
	// Hooks answer; nil: only health and metrics are served.
	Hooks *hooks.Hooks
	// Runners says whether a request comes from a runner that is trusted; nil: none
	// does.
	Runners Authenticator
	// MaxBytes is the size of the largest request; 0: [DefaultMaxBytes].
	MaxBytes int64
	// Ready returns nil if requests can be answered; nil: they always can.
	Ready func() error
	// Registry has the metrics that are served, and gets those of the server;
	// nil: none are served.
	Registry *prometheus.Registry
	// Logger; nil: nothing is logged.
	Logger *slog.Logger
}

type handler struct {
	Options
	requests *prometheus.CounterVec
	// unknownRunner logs once that patches are not carried out, serverSideApply that
	// nothing is answered.
	unknownRunner, serverSideApply sync.Once
}

// NewHandler returns the routes of the server.
func NewHandler(o Options) (http.Handler, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{Options: o, requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rtj_http_requests_total",
		Help: "Hook requests over HTTP, by hook and status code.",
	}, []string{"hook", "code"})}

	router := chi.NewRouter()
	router.Use(h.recover)
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, fmt.Errorf("no %s here; hooks are /sync, /finalize and /customize", r.URL.Path))
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusMethodNotAllowed, fmt.Errorf("%s does not take %s", r.URL.Path, r.Method))
	})
	router.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	router.Get("/readyz", h.ready)
	if o.Hooks != nil {
		router.Post("/sync", h.counted("sync", h.deciding(false)))
		router.Post("/finalize", h.counted("finalize", h.deciding(true)))
		router.Post("/customize", h.counted("customize", h.customize))
	}
	if o.Registry != nil {
		if err := o.Registry.Register(h.requests); err != nil {
			return nil, err
		}
		router.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{Registry: o.Registry}))
	}
	return router, nil
}

func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	if h.Ready != nil {
		if err := h.Ready(); err != nil {
			fail(w, http.StatusServiceUnavailable, err)
			return
		}
	}
	io.WriteString(w, "ok\n")
}

// answers are buffers for what is written and then no longer needed.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// deciding answers sync or finalize, and carries out the patches afterwards.
func (h *handler) deciding(finalizing bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		known, err := h.authenticate(r)
		if err != nil {
			fail(w, http.StatusUnauthorized, err)
			return
		}
		body, ok := h.read(w, r)
		if !ok {
			return
		}
		request, err := contract.DecodeSyncRequest(body)
		if err != nil {
			fail(w, http.StatusBadRequest, err)
			return
		}
		if child := request.ServerSideApplied; child != "" {
			h.serverSideApply.Do(func() {
				h.Logger.Error("every request of this runner is refused", "runner", r.RemoteAddr, "error", errServerSideApply(child))
			})
			fail(w, http.StatusBadRequest, errServerSideApply(child))
			return
		}
		var answer *hooks.Answer
		if known {
			answer, err = h.Hooks.Answer(r.Context(), request, finalizing)
		} else {
			answer, err = h.Hooks.Preview(request, finalizing)
		}
		if err != nil {
			h.failed(w, r, err)
			return
		}
		buffer := answers.Get().(*[]byte)
		*buffer = answer.Response.AppendJSON((*buffer)[:0])
		write(w, *buffer)
		answers.Put(buffer)
		if known {
			h.Hooks.Patch(answer)
			return
		}
		h.unknownRunner.Do(func() {
			h.Logger.Warn("the store is not read and patches are not carried out: the runner did not authenticate itself by a token or a client certificate; jobs will not start", "runner", r.RemoteAddr)
		})
	}
}

// errServerSideApply is a Metacontroller that would force whatever an answer says
// upon the newest state of a child, where an answer is about the state that was
// observed.
func errServerSideApply(child string) error {
	return fmt.Errorf("%s was written by server-side apply, which overwrites what changed meanwhile: "+
		"run Metacontroller without --apply-strategy=server-side-apply, then give its objects back to it: kubectl annotate --overwrite -A -l training.rtj.dev/uid "+
		"workloads.kueue.x-k8s.io,jobsets.jobset.x-k8s.io,configmaps metacontroller.k8s.io/last-applied-configuration={}", child)
}

func (h *handler) customize(w http.ResponseWriter, r *http.Request) {
	body, ok := h.read(w, r)
	if !ok {
		return
	}
	request, err := contract.DecodeCustomizeRequest(body)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	response, err := h.Hooks.Customize(r.Context(), request)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	data, err := json.Marshal(response)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	write(w, data)
}

func (h *handler) authenticate(r *http.Request) (bool, error) {
	if h.Runners == nil {
		return false, nil
	}
	return h.Runners.Authenticate(r)
}

// read returns the body, or answers why it cannot be taken.
func (h *handler) read(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	tooLarge := func() {
		// The rest is not worth reading.
		w.Header().Set("Connection", "close")
		fail(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", h.MaxBytes))
	}
	if r.ContentLength > h.MaxBytes {
		tooLarge()
		return nil, false
	}
	body := make([]byte, 0, max(r.ContentLength, 512)+1)
	reader := http.MaxBytesReader(w, r.Body, h.MaxBytes)
	for {
		n, err := reader.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var limit *http.MaxBytesError
		switch {
		case err == io.EOF:
			return body, true
		case errors.As(err, &limit):
			tooLarge()
			return nil, false
		case err != nil:
			fail(w, http.StatusBadRequest, fmt.Errorf("the request cannot be read: %w", err))
			return nil, false
		}
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
	}
}

// failed answers with the fault of the request or of the hook.
func (h *handler) failed(w http.ResponseWriter, r *http.Request, err error) {
	var refused *contract.Error
	switch {
	case errors.As(err, &refused):
		fail(w, http.StatusBadRequest, err)
	case errors.Is(err, context.Canceled):
		// Nobody reads it.
		fail(w, http.StatusServiceUnavailable, err)
	default:
		h.Logger.Error("hook failed", "path", r.URL.Path, "error", err)
		fail(w, http.StatusInternalServerError, err)
	}
}

func write(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

func fail(w http.ResponseWriter, code int, err error) {
	body, _ := json.Marshal(map[string]string{"error": err.Error()})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(body, '\n'))
}

// recover turns a panic into a 500.
func (h *handler) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				h.Logger.Error("panic", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				fail(w, http.StatusInternalServerError, errors.New("internal error; see the log of rtj"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// counted counts the requests of a hook by their status code.
func (h *handler) counted(hook string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		recorder := &codeRecorder{ResponseWriter: w, code: http.StatusOK}
		returned := false
		defer func() {
			if !returned {
				recorder.code = http.StatusInternalServerError
			}
			h.requests.WithLabelValues(hook, strconv.Itoa(recorder.code)).Inc()
		}()
		next(recorder, r)
		returned = true
	}
}

type codeRecorder struct {
	http.ResponseWriter
	code int
}

func (w *codeRecorder) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController and http.MaxBytesReader.
func (w *codeRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
