package hooks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/patch"
)

// Metrics of the hooks. A nil *Metrics counts nothing.
type Metrics struct {
	duration  *prometheus.HistogramVec
	decisions *prometheus.CounterVec
	readings  *prometheus.HistogramVec
	patches   *prometheus.CounterVec
}

// NewMetrics registers the metrics of the hooks.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rtj_hook_duration_seconds",
			Help:    "Time from a decoded request to its answer, readings of the store included.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 2.5, 10},
		}, []string{"hook"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rtj_decisions_total",
			Help: "Decisions by the rule that matched in each table.",
		}, []string{"table", "rule"}),
		readings: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rtj_store_reading_seconds",
			Help:    "Time that readings of the store took, by what they found: ok, or the failure.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"result"}),
		patches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rtj_patches_total",
			Help: "Patches by what became of them: done, lost (to a newer state), pods-left (or Jobs that may make one), failed.",
		}, []string{"patch", "result"}),
	}
	for _, c := range []prometheus.Collector{m.duration, m.decisions, m.readings, m.patches} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// CountPatch counts a patch that was tried.
func (m *Metrics) CountPatch(name string, result patch.Result) {
	if m != nil {
		m.patches.WithLabelValues(name, string(result)).Inc()
	}
}

func (m *Metrics) answered(hook string, took time.Duration, d *compose.Decision) {
	if m == nil {
		return
	}
	m.duration.WithLabelValues(hook).Observe(took.Seconds())
	if d == nil {
		return
	}
	for _, match := range d.Rules {
		m.decisions.WithLabelValues(match.Table, match.Rule).Inc()
	}
}

func (m *Metrics) read(took time.Duration, s *checkpoint.Snapshot) {
	if m == nil {
		return
	}
	result := "ok"
	if s.Failure != nil {
		result = string(s.Failure.Kind)
	}
	m.readings.WithLabelValues(result).Observe(took.Seconds())
}
