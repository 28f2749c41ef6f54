package applier

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// DefaultWorkers is how many parents are synced at once: they mostly wait for hooks
// and the API server.
const DefaultWorkers = 32

// Options for [New].
type Options struct {
	// Config reaches the API server. If it sets no QPS, requests are not limited:
	// the API server shares itself out fairly (APF).
	Config *rest.Config
	// Controller says what to run. See [Parse].
	Controller *CompositeController
	// Hooks decide.
	Hooks Hooks
	// Workers is how many parents are synced at once, 32 by default. Parents that
	// keep failing use a quarter of them at most.
	Workers int
	// Limits bound what one parent can cost.
	Limits Limits
	// Writes bounds how many requests that write are under way at once. Appliers of
	// one process share it; by default the limit is 32 and each has its own.
	Writes *WriteLimit
	// Logger, slog.Default() by default.
	Logger *slog.Logger
	// Registerer, if set, gets the metrics.
	Registerer prometheus.Registerer
	// Events, if set, is told of failures and of conditions that changed.
	Events Events
}

// Applier runs one CompositeController.
type Applier struct {
	controller     *CompositeController
	controllerJSON json.RawMessage
	hooks          Hooks
	workers        int
	limits         Limits
	fieldManager   string
	logger         *slog.Logger
	metrics        *metrics
	events         Events
	// warnings says which status of a condition is a warning.
	warnings map[string]string

	dynamic       dynamic.Interface
	metadata      metadata.Interface
	kinds         *kinds
	queue         workqueue.TypedInterface[types.NamespacedName]
	alarms        *alarms
	quarantine    chan struct{} // has a place for each worker that failing parents may use
	writes        *WriteLimit
	subscriptions *subscriptions

	// Set when running.
	plan         *plan.Controller
	childScopes  map[scope]*plan.ChildKind
	metadataOnly map[schema.GroupResource]bool
	caches       *caches
	parents      *objects
	childCaches  map[*plan.ChildKind]*objects

	mu     sync.Mutex
	states map[types.NamespacedName]*parentState
	// ready is set once the caches of parents and children are complete.
	ready bool

	// identity counts how often the hooks turned out to be others.
	identity atomic.Int64
}

// New prepares to run a CompositeController. It does not reach for the API
// server yet.
func New(o Options) (*Applier, error) {
	if err := o.Controller.Validate(); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(o.Config)
	if config.QPS == 0 {
		config.QPS = -1
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), client)
	if err != nil {
		return nil, err
	}
	return newApplier(o, dynamicClient, metadataClient, discoveryClient)
}

func newApplier(o Options, dynamicClient dynamic.Interface, metadataClient metadata.Interface, discoveryClient discovery.ServerResourcesInterface) (*Applier, error) {
	c := o.Controller
	if _, err := c.parentSelector(); err != nil {
		return nil, err
	}
	warnings, err := warningConditions(c.Annotations[WarningsAnnotation])
	if err != nil {
		return nil, err
	}
	sent := *c
	sent.APIVersion, sent.Kind = controllerAPIVersion, controllerKind
	controllerJSON, err := json.Marshal(&sent)
	if err != nil {
		return nil, err
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.Default()
	}
	workers := o.Workers
	if workers <= 0 {
		workers = DefaultWorkers
	}
	writes := o.Writes
	if writes == nil {
		writes = NewWriteLimit(DefaultWrites)
	}
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Name: "applier-" + c.Name})
	a := &Applier{
		controller:     c,
		controllerJSON: controllerJSON,
		hooks:          o.Hooks,
		workers:        workers,
		limits:         o.Limits.withDefaults(),
		fieldManager:   fieldManager(c.Name, ""),
		logger:         logger.With("controller", c.Name),
		events:         o.Events,
		warnings:       warnings,
		dynamic:        dynamicClient,
		metadata:       metadataClient,
		kinds:          &kinds{client: discoveryClient},
		queue:          queue,
		alarms:         newAlarms(queue.Add),
		quarantine:     make(chan struct{}, max(1, workers/4)),
		writes:         writes,
		subscriptions:  newSubscriptions(),
		states:         map[types.NamespacedName]*parentState{},
	}
	a.identity.Store(1)
	a.metrics = newMetrics(a, c.Name)
	if o.Registerer != nil {
		if err := o.Registerer.Register(a.metrics); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// fieldManager names us in managedFields, in at most 128 characters. The suffix
// tells apart what is applied separately.
func fieldManager(controller, suffix string) string {
	const prefix = "applier.rtj.dev-"
	return prefix + controller[:min(len(controller), 128-len(prefix)-len(suffix))] + suffix
}

// Enqueue asks for a sync of a parent as soon as possible, for hooks that learn
// something on their own. It may be called at any time; before [Applier.Run] the
// request waits.
func (a *Applier) Enqueue(namespace, name string) {
	a.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
}

// Ready tells whether the caches are complete and parents are being synced.
func (a *Applier) Ready() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready
}

// state returns what is remembered of a parent.
func (a *Applier) state(key types.NamespacedName) *parentState {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.states[key]
	if s == nil {
		s = newParentState()
		a.states[key] = s
	}
	return s
}

// forget drops everything about a parent that is gone.
func (a *Applier) forget(key types.NamespacedName) {
	a.alarms.cancel(key)
	a.subscriptions.set(key, nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	if state := a.states[key]; state != nil {
		state.ResyncAt = time.Time{}
	}
	delete(a.states, key)
}

// cacheSizes are those of the caches that have been started.
func (a *Applier) cacheSizes() map[scope]cacheSize {
	a.mu.Lock()
	caches := a.caches
	a.mu.Unlock()
	if caches == nil {
		return nil
	}
	return caches.sizes()
}

// remembered counts what is held in memory about parents, by kind of entry.
func (a *Applier) remembered() map[string]int {
	a.mu.Lock()
	states := slices.Collect(maps.Values(a.states))
	a.mu.Unlock()
	count := map[string]int{"parents": len(states), "alarms": a.alarms.len(), "subscribers": a.subscriptions.len()}
	for _, s := range states {
		objects, expectations := s.Recorded()
		count["objects"] += objects
		count["expectations"] += expectations
	}
	return count
}
