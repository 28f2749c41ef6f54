package applier

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// metrics count what the applier of one CompositeController does. They are a
// prometheus.Collector; cache sizes and the queue are read when collected.
type metrics struct {
	syncs        *prometheus.CounterVec
	syncDuration *prometheus.HistogramVec
	hookDuration *prometheus.HistogramVec
	hookErrors   *prometheus.CounterVec
	writes       *prometheus.CounterVec
	reads        *prometheus.CounterVec
	same         *prometheus.CounterVec

	queueDepth   *prometheus.Desc
	cacheObjects *prometheus.Desc
	cacheBytes   *prometheus.Desc
	remembered   *prometheus.Desc
	applier      *Applier
}

func newMetrics(a *Applier, controller string) *metrics {
	labels := prometheus.Labels{"controller": controller}
	counter := func(name, help string, by ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "rtj", Subsystem: "applier", Name: name, Help: help, ConstLabels: labels}, by)
	}
	histogram := func(name, help string, by ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rtj", Subsystem: "applier", Name: name, Help: help, ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, by)
	}
	return &metrics{
		syncs:        counter("syncs_total", "Syncs of a parent, by result: success, unfinished (more to write in its next turn), not-yet (caches not complete), lost-race (a write came too late), error.", "result"),
		syncDuration: histogram("sync_duration_seconds", "Duration of a sync, hooks and writes included."),
		hookDuration: histogram("hook_duration_seconds", "Duration of a call of a hook.", "hook"),
		hookErrors:   counter("hook_errors_total", "Calls of a hook that failed, by cause: connection, tls, credentials, timeout, throttled, status, too-large, answer (not understood or refused), panic, hook (an error of the hook itself).", "hook", "cause"),
		writes:       counter("writes_total", "Requests that write, by kind, verb and result.", "kind", "verb", "result"),
		reads:        counter("live_reads_total", "Requests that read an object past the caches, by kind and reason. None are made while nothing changes.", "kind", "reason"),
		same:         counter("unchanged_children_total", "Children that were already what the hook wants.", "kind"),
		queueDepth:   prometheus.NewDesc("rtj_applier_queue_depth", "Parents that wait for a worker.", nil, labels),
		cacheObjects: prometheus.NewDesc("rtj_applier_cache_objects", "Objects in a cache.", []string{"scope"}, labels),
		cacheBytes:   prometheus.NewDesc("rtj_applier_cache_bytes", "About how much memory the objects of a cache take.", []string{"scope"}, labels),
		remembered:   prometheus.NewDesc("rtj_applier_remembered", "Entries that are held in memory about parents, by what they are: parents, alarms (times of later syncs), subscribers (parents with related objects), objects (written parents and children), expectations (writes that the caches do not show yet).", []string{"of"}, labels),
		applier:      a,
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.syncs, m.syncDuration, m.hookDuration, m.hookErrors, m.writes, m.reads, m.same}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
	ch <- m.queueDepth
	ch <- m.cacheObjects
	ch <- m.cacheBytes
	ch <- m.remembered
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
	ch <- prometheus.MustNewConstMetric(m.queueDepth, prometheus.GaugeValue, float64(m.applier.queue.Len()))
	for scope, size := range m.applier.cacheSizes() {
		ch <- prometheus.MustNewConstMetric(m.cacheObjects, prometheus.GaugeValue, float64(size.objects), scope.String())
		ch <- prometheus.MustNewConstMetric(m.cacheBytes, prometheus.GaugeValue, float64(size.bytes), scope.String())
	}
	for of, n := range m.applier.remembered() {
		ch <- prometheus.MustNewConstMetric(m.remembered, prometheus.GaugeValue, float64(n), of)
	}
}

func (m *metrics) synced(result string, started time.Time) {
	m.syncs.WithLabelValues(result).Inc()
	m.syncDuration.WithLabelValues().Observe(time.Since(started).Seconds())
}

func (m *metrics) hook(name string, started time.Time, err error) {
	m.hookDuration.WithLabelValues(name).Observe(time.Since(started).Seconds())
	if err != nil {
		m.hookFailed(name, causeOf(err))
	}
}

func (m *metrics) hookFailed(name string, cause Cause) {
	m.hookErrors.WithLabelValues(name, string(cause)).Inc()
}

func (m *metrics) write(k plan.Kind, verb string, err error) {
	m.writes.WithLabelValues(k.Key(), verb, writeResult(err)).Inc()
}

func (m *metrics) read(k plan.Kind, reason string) { m.reads.WithLabelValues(k.Key(), reason).Inc() }

func (m *metrics) unchanged(k plan.Kind) { m.same.WithLabelValues(k.Key()).Inc() }

func writeResult(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsConflict(err):
		return "conflict"
	case apierrors.IsAlreadyExists(err):
		return "exists"
	case apierrors.IsNotFound(err):
		return "gone"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "invalid"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "forbidden"
	case apierrors.IsTooManyRequests(err):
		return "throttled"
	default:
		return "error"
	}
}
