package applier

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"rtj.dev/rtj/metacontroller/applier/plan"
)

// scope is what one cache holds: the objects of one kind that have certain
// labels, with whatever values. Watching by the value would need a watch for
// each parent; watching everything would hold what nobody asks for.
type scope struct {
	resource schema.GroupVersionResource
	// labels that an object must have, sorted, separated by commas.
	labels string
	// metadataOf, if set, is the kind of the objects, of which only metadata is
	// held.
	metadataOf string
}

// scopeOf returns the widest set of objects that a selector can match and that a
// watch shared with other selectors can hold.
func scopeOf(resource schema.GroupVersionResource, selector labels.Selector) scope {
	var keys []string
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In, selection.Exists:
			keys = append(keys, r.Key())
		}
	}
	slices.Sort(keys)
	return scope{resource: resource, labels: strings.Join(slices.Compact(keys), ",")}
}

func (s scope) String() string {
	text := s.resource.Resource + "." + s.resource.GroupVersion().String()
	if s.labels != "" {
		text += " with labels " + s.labels
	}
	if s.metadataOf != "" {
		text += ", metadata only"
	}
	return text
}

// The names of the indexes of a cache.
const (
	byOwner     = "owner"     // the uid of the controlling owner
	byNamespace = "namespace" // the namespace
	byLabel     = "label"     // "key=value", for the labels of the scope
	byUID       = "uid"       // the uid

	// Only where no selector is generated:
	orphans    = "orphans"  // [orphanKey]s, for objects that nothing controls
	bySelector = "selector" // [orphanKey]s of what a parent selects
)

var commonIndexers = cache.Indexers{
	byOwner: func(object any) ([]string, error) {
		if owner := plan.ControllerOf(object.(*plan.Object)); owner != nil {
			return []string{string(owner.UID)}, nil
		}
		return nil, nil
	},
	byNamespace: func(object any) ([]string, error) {
		return []string{object.(*plan.Object).GetNamespace()}, nil
	},
	byUID: func(object any) ([]string, error) {
		return []string{string(object.(*plan.Object).GetUID())}, nil
	},
}

// objects is one cache: a watch and what it has brought.
type objects struct {
	scope    scope
	informer cache.SharedIndexInformer
	indexer  cache.Indexer
	// lastError of the list or watch, until there is a success.
	lastError atomic.Pointer[error]
	// stop ends the watch, and idle says that nobody needed it of late.
	stop context.CancelFunc
	idle bool
}

// get returns an object by its place, or nil.
func (c *objects) get(namespace, name string) *plan.Object {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	object, exists, err := c.indexer.GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	return object.(*plan.Object)
}

func (c *objects) lookup(index, value string) []*plan.Object {
	found, err := c.indexer.ByIndex(index, value)
	if err != nil {
		panic(err) // no such index: a fault of this package
	}
	return asObservedList(found)
}

func (c *objects) all() []*plan.Object { return asObservedList(c.indexer.List()) }

func asObservedList(found []any) []*plan.Object {
	list := make([]*plan.Object, len(found))
	for i := range found {
		list[i] = found[i].(*plan.Object)
	}
	return list
}

// synced returns nil once the cache is complete, else why it is not.
func (c *objects) synced() error {
	if c.informer.HasSynced() {
		return nil
	}
	if err := c.lastError.Load(); err != nil {
		return fmt.Errorf("%s cannot be watched: %w", c.scope, *err)
	}
	return fmt.Errorf("%s are not yet listed", c.scope)
}

// caches starts a cache at its first use and runs it until its context ends.
type caches struct {
	ctx      context.Context
	client   dynamic.Interface
	metadata metadata.Interface
	wg       sync.WaitGroup

	mu      sync.Mutex
	byScope map[scope]*objects
}

func newCaches(ctx context.Context, client dynamic.Interface, metadata metadata.Interface) *caches {
	return &caches{ctx: ctx, client: client, metadata: metadata, byScope: map[scope]*objects{}}
}

// start returns the cache of a scope, and starts it if it is new, with indexes
// beside the common ones; then handler is told of every change.
func (c *caches) start(s scope, handler func(*objects) cache.ResourceEventHandler, more cache.Indexers) *objects {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.byScope[s]; o != nil {
		return o
	}
	o := &objects{scope: s}
	indexers := cache.Indexers{byLabel: labelIndex(strings.Split(s.labels, ","))}
	maps.Copy(indexers, commonIndexers)
	maps.Copy(indexers, more)
	var example runtime.Object = &unstructured.Unstructured{}
	if s.metadataOf != "" {
		example = &metav1.PartialObjectMetadata{}
	}
	o.informer = cache.NewSharedIndexInformerWithOptions(c.listWatch(s), example, cache.SharedIndexInformerOptions{
		Indexers:          indexers,
		ObjectDescription: s.String(),
	})
	o.indexer = o.informer.GetIndexer()
	// These fail only once the informer has started.
	utilruntime.Must(o.informer.SetTransform(s.transform))
	utilruntime.Must(o.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		o.lastError.Store(&err)
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}))
	_, err := o.informer.AddEventHandler(handler(o))
	utilruntime.Must(err)
	c.byScope[s] = o
	var running context.Context
	running, o.stop = context.WithCancel(c.ctx)
	c.wg.Go(func() {
		defer o.stop()
		o.informer.RunWithContext(running)
	})
	return o
}

// sweep ends the caches that are not in use and were not at the last sweep.
func (c *caches) sweep(inUse func(scope) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, o := range c.byScope {
		switch {
		case inUse(s):
			o.idle = false
		case !o.idle:
			o.idle = true
		default:
			o.stop()
			delete(c.byScope, s)
		}
	}
}

func labelIndex(keys []string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		var values []string
		set := object.(*plan.Object).GetLabels()
		for _, key := range keys {
			if value, ok := set[key]; ok {
				values = append(values, key+"="+value)
			}
		}
		return values, nil
	}
}

func (c *caches) listWatch(s scope) cache.ListerWatcher {
	if s.metadataOf != "" {
		return labelled(c.metadata.Resource(s.resource), s.labels, c.metadata)
	}
	return labelled(c.client.Resource(s.resource), s.labels, c.client)
}

// transform makes the caches hold observed objects.
func (s scope) transform(object any) (any, error) {
	switch o := object.(type) {
	case *unstructured.Unstructured:
		return plan.Observe(o), nil
	case *metav1.PartialObjectMetadata:
		metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o.ObjectMeta)
		if err != nil {
			return nil, err
		}
		return plan.Observe(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": s.resource.GroupVersion().String(), "kind": s.metadataOf, "metadata": metadata,
		}}), nil
	case *plan.Object, cache.DeletedFinalStateUnknown:
		return o, nil
	default:
		return nil, fmt.Errorf("unexpected %T from the API server", object)
	}
}

// lister is a client of one resource, whatever it makes of the objects.
type lister[List runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (List, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// labelled lists and watches what a label selector matches. The whole client tells
// whether it can do both in one request.
func labelled[List runtime.Object](resource lister[List], selector string, client any) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return resource.Watch(ctx, options)
		},
	}, client)
}

// sizes returns how many objects each cache holds, and their [plan.Object.Size]s
// together.
func (c *caches) sizes() map[scope]cacheSize {
	c.mu.Lock()
	byScope := maps.Clone(c.byScope)
	c.mu.Unlock()
	sizes := make(map[scope]cacheSize, len(byScope))
	for s, o := range byScope {
		var size cacheSize
		for _, object := range o.all() {
			size.objects++
			size.bytes += object.Size
		}
		sizes[s] = size
	}
	return sizes
}

type cacheSize struct{ objects, bytes int }

// wait blocks until every cache has stopped, which they do when their context
// ends.
func (c *caches) wait() { c.wg.Wait() }
