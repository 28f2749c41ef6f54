package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"rtj.dev/rtj/metacontroller/applier"
)

// releaseDelay is how long after the deletion of a CompositeController its
// finalizer is removed from parents.
const releaseDelay = 30 * time.Second

// Hooks are those of one controller.
type Hooks interface {
	applier.Hooks
	// Close ends what they started. It is called when nothing calls them any more.
	Close()
}

// Options for [New].
type Options struct {
	// Config reaches the API server.
	Config *rest.Config
	// Hooks returns the hooks of a controller. An error refuses the controller until
	// it is edited.
	Hooks func(*applier.CompositeController) (Hooks, error)
	// Controllers are run as they are. Their names differ.
	Controllers []*applier.CompositeController
	// FromCluster also runs the CompositeController objects of the cluster that
	// Selector matches, nil all.
	FromCluster bool
	Selector    labels.Selector
	// KeepFinalizers leaves the finalizer on parents when a CompositeController is
	// deleted from the cluster.
	KeepFinalizers bool
	// Workers is how many parents of one controller are synced at once, and Limits
	// what one parent can cost.
	Workers int
	Limits  applier.Limits
	// Logger, slog.Default() by default.
	Logger *slog.Logger
	// Registerer, if set, gets the metrics.
	Registerer prometheus.Registerer
	// Events, if set, is told what becomes of parents and of CompositeControllers.
	Events applier.Events
}

// Manager runs CompositeControllers.
type Manager struct {
	options      Options
	logger       *slog.Logger
	client       dynamic.Interface
	releaseDelay time.Duration
	writes       *applier.WriteLimit // shared by all controllers
	supervisors  sync.WaitGroup

	mu        sync.Mutex
	instances map[string]*instance
	// unknown is why it is not known what should be run, nil once it is.
	unknown error
}

// New returns a Manager that runs nothing yet.
func New(o Options) (*Manager, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Selector == nil {
		o.Selector = labels.Everything()
	}
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		options: o, logger: o.Logger, client: client, releaseDelay: releaseDelay,
		writes: applier.NewWriteLimit(applier.DefaultWrites), instances: map[string]*instance{},
	}
	names := map[string]bool{}
	for _, c := range o.Controllers {
		if names[c.Name] {
			return nil, fmt.Errorf("CompositeController %s occurs twice", c.Name)
		}
		names[c.Name] = true
	}
	m.unknown = errors.New("no CompositeController is started yet")
	if o.FromCluster {
		m.unknown = errors.New("the cluster's CompositeControllers are not listed yet")
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(&states{manager: m}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Run runs the controllers until ctx ends, and returns when all of them have
// stopped.
func (m *Manager) Run(ctx context.Context) error {
	defer m.supervisors.Wait()
	for _, c := range m.options.Controllers {
		m.want(ctx, c.Name, desired{controller: c})
	}
	if m.options.FromCluster {
		m.follow(ctx)
	} else {
		m.known()
	}
	<-ctx.Done()
	return nil
}

// known says that all that should be run is wanted now.
func (m *Manager) known() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unknown = nil
}

// Ready returns nil once every controller is refused or has complete caches.
func (m *Manager) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unknown != nil {
		return m.unknown
	}
	for _, name := range slices.Sorted(maps.Keys(m.instances)) {
		if m.instances[name].state == starting {
			return fmt.Errorf("CompositeController %s: the caches are not complete yet", name)
		}
	}
	return nil
}

// want tells what should be run under a name. What is newer replaces what was not
// yet begun.
func (m *Manager) want(ctx context.Context, name string, d desired) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.instances[name]
	if i == nil {
		if d.gone {
			return
		}
		i = &instance{manager: m, name: name, state: starting, next: make(chan desired, 1), logger: m.logger.With("controller", name)}
		m.instances[name] = i
		m.supervisors.Go(func() { i.supervise(ctx) })
	}
	select {
	case <-i.next:
	default:
	}
	i.next <- d
}

// remove forgets an instance, unless something is wanted of it again.
func (m *Manager) remove(i *instance) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(i.next) > 0 {
		return false
	}
	delete(m.instances, i.name)
	return true
}

// states counts the controllers by state.
type states struct{ manager *Manager }

var controllersDesc = prometheus.NewDesc("rtj_manager_controllers", "CompositeControllers by state: starting, running, refused, stopped.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (s *states) Describe(ch chan<- *prometheus.Desc) { ch <- controllersDesc }

// Collect implements prometheus.Collector.
func (s *states) Collect(ch chan<- prometheus.Metric) {
	counts := map[state]int{starting: 0, running: 0, refused: 0, stopped: 0}
	s.manager.mu.Lock()
	for _, i := range s.manager.instances {
		counts[i.state]++
	}
	s.manager.mu.Unlock()
	for state, n := range counts {
		ch <- prometheus.MustNewConstMetric(controllersDesc, prometheus.GaugeValue, float64(n), string(state))
	}
}
