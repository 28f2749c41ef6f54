package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	// objectBurst events about one object, of one type, may come at once, and then
	// one each objectPeriod. A life with several preemptions fits, a loop does not.
	objectBurst  = 50
	objectPeriod = 30 * time.Second
	// overallBurst events may come at once from this process, and then overallRate
	// each second.
	overallBurst = 500
	overallRate  = 20
	// queued events wait at most; more are dropped.
	queued = 1000
	// An event that could not be written is tried again, for what is worth waiting
	// for; meanwhile the others wait.
	eventTries   = 3
	eventRetry   = time.Second
	eventTimeout = 10 * time.Second
	// flushTime is how long events that wait are still written at the end.
	flushTime = time.Second
)

// RecorderOptions of [NewRecorder].
type RecorderOptions struct {
	// Config reaches the API server.
	Config *rest.Config
	// Component and Host say where events come from.
	Component, Host string
	// Logger, slog.Default() by default.
	Logger *slog.Logger
	// Registerer, if set, gets the metrics.
	Registerer prometheus.Registerer
}

// Recorder writes Events. Those that repeat are counted on one Event, those of
// one reason with ever different messages are gathered, and beyond its limits they
// are dropped: an event is for people, and nothing depends on it. It never waits.
type Recorder struct {
	source     corev1.EventSource
	logger     *slog.Logger
	events     coreclient.EventsGetter
	correlator *record.EventCorrelator
	overall    flowcontrol.RateLimiter
	results    *prometheus.CounterVec
	queue      chan *corev1.Event
	worker     sync.WaitGroup

	// stopping ends when no more is taken, sending when no more is written.
	stopping, sending context.Context
	stop, abort       context.CancelFunc
}

// NewRecorder returns a Recorder. Close ends it.
func NewRecorder(o RecorderOptions) (*Recorder, error) {
	client, err := coreclient.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	return newRecorder(o, client)
}

func newRecorder(o RecorderOptions, client coreclient.EventsGetter) (*Recorder, error) {
	r := &Recorder{
		source: corev1.EventSource{Component: o.Component, Host: o.Host},
		logger: o.Logger,
		events: client,
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			BurstSize: objectBurst, QPS: float32(1 / objectPeriod.Seconds()),
		}),
		overall: flowcontrol.NewTokenBucketRateLimiter(overallRate, overallBurst),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rtj_events_total",
			Help: "Events about objects, by result: written, gathered (beyond the limit of the object), dropped (beyond the limit of the process), failed.",
		}, []string{"result"}),
		queue: make(chan *corev1.Event, queued),
	}
	if r.logger == nil {
		r.logger = slog.Default()
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(r.results); err != nil {
			return nil, err
		}
	}
	r.stopping, r.stop = context.WithCancel(context.Background())
	r.sending, r.abort = context.WithCancel(context.Background())
	r.worker.Go(r.work)
	return r, nil
}

// Close writes what waits, for a moment, and returns when nothing is written any
// more. Events that come later are dropped.
func (r *Recorder) Close() {
	r.stop()
	limit := time.AfterFunc(flushTime, r.abort)
	defer limit.Stop()
	defer r.abort()
	r.worker.Wait()
}

// Event implements applier.Events.
func (r *Recorder) Event(object *unstructured.Unstructured, eventType, reason, message string) {
	r.record(object, eventType, reason, message)
}

// Eventf implements the interface by which client-go's leader election tells who
// leads.
func (r *Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	if o, ok := object.(metav1Object); ok {
		r.record(o, eventType, reason, fmt.Sprintf(format, args...))
	}
}

// metav1Object has kind and metadata.
type metav1Object interface {
	runtime.Object
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

func (r *Recorder) record(object metav1Object, eventType, reason, message string) {
	if r.stopping.Err() != nil || !r.overall.TryAccept() {
		r.results.WithLabelValues("dropped").Inc()
		return
	}
	now := metav1.Now()
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault // as for every event about a cluster-scoped object
	}
	apiVersion, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: recordutil.GenerateEventName(object.GetName(), now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(),
			UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		},
		Type: eventType, Reason: reason, Message: withoutSecrets(message),
		Source: r.source, ReportingController: r.source.Component, ReportingInstance: r.source.Host,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	select {
	case r.queue <- event:
	default:
		r.results.WithLabelValues("dropped").Inc()
	}
}

func (r *Recorder) work() {
	for {
		select {
		case event := <-r.queue:
			r.write(event)
		case <-r.stopping.Done():
			for len(r.queue) > 0 && r.sending.Err() == nil {
				r.write(<-r.queue)
			}
			return
		}
	}
}

// write writes an event, or counts it on one that was written before.
func (r *Recorder) write(event *corev1.Event) {
	result, err := r.correlator.EventCorrelate(event)
	if err != nil {
		r.logger.Debug("event cannot be gathered with earlier ones", "error", err)
	}
	if result.Skip {
		r.results.WithLabelValues("gathered").Inc()
		return
	}
	var answered apierrors.APIStatus
	for try := 1; ; try++ {
		var written *corev1.Event
		if written, err = r.send(result); err == nil {
			r.correlator.UpdateState(written)
			r.results.WithLabelValues("written").Inc()
			return
		}
		if errors.As(err, &answered) || try == eventTries {
			break
		}
		select {
		case <-r.stopping.Done():
		case <-time.After(eventRetry):
		}
	}
	r.results.WithLabelValues("failed").Inc()
	// An API server that cannot be reached is in the log often enough, and nothing
	// can be written to a namespace that is being deleted.
	level := slog.LevelDebug
	if answered != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		level = slog.LevelWarn
	}
	r.logger.Log(context.Background(), level, "event not written", "namespace", event.InvolvedObject.Namespace, "name", event.InvolvedObject.Name, "reason", event.Reason, "error", err)
}

func (r *Recorder) send(result *record.EventCorrelateResult) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(r.sending, eventTimeout)
	defer cancel()
	event := result.Event
	client := r.events.Events(event.Namespace)
	if event.Count > 1 && result.Patch != nil {
		written, err := client.Patch(ctx, event.Name, types.StrategicMergePatchType, result.Patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return written, err
		}
		// It was kept for an hour and is gone.
	}
	event.ResourceVersion = ""
	return client.Create(ctx, event, metav1.CreateOptions{})
}

// secrets are what may stand in an error's text and must not in an event.
var secrets = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`(?i)(\bbearer\s+)[\w.~+/=-]{8,}`), "$1[hidden]"},
	{regexp.MustCompile(`(?i)(authorization["']?:\s*["']?basic\s+)[\w+/=-]+`), "$1[hidden]"},
	{regexp.MustCompile(`://[^/\s@]+@`), "://[hidden]@"},
	{regexp.MustCompile(`(https?://[^\s"'?]+)\?[^\s"']+`), "$1?[hidden]"},
	{regexp.MustCompile(`(?i)(password|passwd|token|secret|api[_-]?key)(=|"\s*:\s*")[^\s"',;&]+`), "$1$2[hidden]"},
}

func withoutSecrets(message string) string {
	for _, s := range secrets {
		message = s.pattern.ReplaceAllString(message, s.replacement)
	}
	return message
}
