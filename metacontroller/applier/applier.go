package applier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
)

const defaultWorkers = 8

// Options for [New].
type Options struct {
	// Config reaches the API server. If it sets no QPS, requests are not limited:
	// the API server shares itself out fairly (APF).
	Config *rest.Config
	// Controller says what to run. See [Parse].
	Controller *CompositeController
	// Hooks decide.
	Hooks Hooks
	// Workers is how many parents are synced at once, 8 by default.
	Workers int
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
	fieldManager   string
	logger         *slog.Logger
	metrics        *metrics
	selector       labels.Selector
	events         Events
	// warnings says which status of a condition is a warning.
	warnings map[string]string

	dynamic       dynamic.Interface
	kinds         *kinds
	queue         workqueue.TypedDelayingInterface[types.NamespacedName]
	subscriptions *subscriptions

	// Set when running.
	parent        kind
	children      []*childKind
	childrenByKey map[string]*childKind
	childScopes   map[scope]*childKind
	caches        *caches
	parents       *objects

	mu     sync.Mutex
	states map[types.NamespacedName]*parentState
	// ready is set once the caches of parents and children are complete.
	ready bool
}

// New prepares to run a CompositeController. It does not reach for the API
// server yet.
func New(o Options) (*Applier, error) {
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
	return newApplier(o, dynamicClient, discoveryClient)
}

func newApplier(o Options, dynamicClient dynamic.Interface, discoveryClient discovery.ServerResourcesInterface) (*Applier, error) {
	c := o.Controller
	if err := c.Validate(); err != nil {
		return nil, err
	}
	selector := labels.Everything()
	if s := c.Spec.ParentResource.LabelSelector; s != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(s); err != nil {
			return nil, err
		}
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
		workers = defaultWorkers
	}
	a := &Applier{
		controller:     c,
		controllerJSON: controllerJSON,
		hooks:          o.Hooks,
		workers:        workers,
		fieldManager:   fieldManager(c.Name),
		logger:         logger.With("controller", c.Name),
		selector:       selector,
		events:         o.Events,
		warnings:       warnings,
		dynamic:        dynamicClient,
		kinds:          &kinds{client: discoveryClient},
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{
			Name: "applier-" + c.Name,
		}),
		subscriptions: newSubscriptions(),
		states:        map[types.NamespacedName]*parentState{},
	}
	a.metrics = newMetrics(a, c.Name)
	if o.Registerer != nil {
		if err := o.Registerer.Register(a.metrics); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// fieldManager names us in managedFields, in at most 128 characters.
func fieldManager(controller string) string {
	const prefix = "applier.rtj.dev-"
	return prefix + controller[:min(len(controller), 128-len(prefix))]
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

// Run watches and syncs until ctx ends, and returns when everything that it
// started has stopped. It returns an error, without having written anything, if
// the CompositeController does not fit what the API server offers. It can be
// called once.
func (a *Applier) Run(ctx context.Context) error {
	defer a.queue.ShutDown()
	if err := a.discover(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	a.mu.Lock()
	a.caches = newCaches(ctx, a.dynamic)
	a.mu.Unlock()
	defer func() {
		cancel()
		a.queue.ShutDown()
		workers.Wait()
		a.caches.wait()
	}()

	needed := make([]*objects, 0, 1+len(a.children))
	for _, kind := range a.children {
		s := a.childScope(kind)
		a.childScopes[s] = kind
	}
	a.parents = a.caches.start(scope{resource: a.parent.resource}, a.handler)
	needed = append(needed, a.parents)
	for s, kind := range a.childScopes {
		kind.cache = a.caches.start(s, a.handler)
		needed = append(needed, kind.cache)
	}
	a.logger.Info("waiting for the caches", "parent", a.parent.key(), "children", len(a.children))
	if err := a.waitFor(ctx, needed); err != nil {
		return nil // ctx ended
	}
	for range a.workers {
		workers.Go(func() { a.work(ctx) })
	}
	if period := a.controller.Spec.ResyncPeriodSeconds; period != nil {
		workers.Go(func() { a.resync(ctx, time.Duration(*period)*time.Second) })
	}
	a.mu.Lock()
	a.ready = true
	a.mu.Unlock()
	a.logger.Info("syncing", "workers", a.workers, "parents", len(a.parents.all()))
	<-ctx.Done()
	a.mu.Lock()
	a.ready = false
	a.mu.Unlock()
	return nil
}

// discover finds out about the resources that the controller names.
func (a *Applier) discover() error {
	name := controllerKind + " " + a.controller.Name
	parent, err := a.kinds.find(a.controller.Spec.ParentResource.Resource)
	if err != nil {
		return fmt.Errorf("%s: spec.parentResource: %w", name, err)
	}
	if !parent.hasStatus {
		return fmt.Errorf("%s: spec.parentResource: %s has no status subresource; without it every status write would look like a change of the parent", name, a.controller.Spec.ParentResource.Resource.Resource)
	}
	a.parent = parent
	a.childrenByKey = map[string]*childKind{}
	a.childScopes = map[scope]*childKind{}
	var faults []error
	for i, c := range a.controller.Spec.ChildResources {
		k, err := a.kinds.find(c.Resource)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: spec.childResources[%d]: %w", name, i, err))
			continue
		case !k.namespaced && parent.namespaced:
			faults = append(faults, fmt.Errorf("%s: spec.childResources[%d]: %s are cluster-scoped, and parents in a namespace cannot own them", name, i, c.Resource.Resource))
			continue
		}
		child := &childKind{kind: k, method: c.method()}
		a.children = append(a.children, child)
		a.childrenByKey[k.key()] = child
	}
	return errors.Join(faults...)
}

// childScope is what is watched of a kind of children.
func (a *Applier) childScope(kind *childKind) scope {
	s := scope{resource: kind.resource}
	if a.controller.generatesSelector() {
		s.labels = uidLabel
	}
	return s
}

// waitFor blocks until the caches are complete, and says from time to time which
// are not.
func (a *Applier) waitFor(ctx context.Context, needed []*objects) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	nextReport := time.Now().Add(5 * time.Second)
	for {
		var missing []string
		for _, o := range needed {
			if err := o.synced(); err != nil {
				missing = append(missing, err.Error())
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if time.Now().After(nextReport) {
			a.logger.Warn("still waiting for the caches", "missing", strings.Join(missing, "; "))
			nextReport = time.Now().Add(10 * time.Second)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *Applier) work(ctx context.Context) {
	for {
		key, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			a.process(ctx, key)
		}
		a.queue.Done(key)
	}
}

func (a *Applier) resync(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, parent := range a.parents.all() {
				a.enqueue(parent)
			}
		}
	}
}

func (a *Applier) enqueue(parent *observed) { a.Enqueue(parent.GetNamespace(), parent.GetName()) }

// state returns what is remembered of a parent.
func (a *Applier) state(key types.NamespacedName) *parentState {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.states[key]
	if s == nil {
		s = &parentState{}
		a.states[key] = s
	}
	return s
}

// forget drops everything about a parent that is gone.
func (a *Applier) forget(key types.NamespacedName) {
	a.subscriptions.set(key, nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.states, key)
}

func (a *Applier) cacheSizes() map[string]int {
	a.mu.Lock()
	caches := a.caches
	a.mu.Unlock()
	sizes := map[string]int{}
	if caches == nil {
		return sizes
	}
	caches.mu.Lock()
	byScope := maps.Clone(caches.byScope)
	caches.mu.Unlock()
	for s, o := range byScope {
		sizes[s.String()] = len(o.indexer.ListKeys())
	}
	return sizes
}
