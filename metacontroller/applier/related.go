package applier

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier/plan"
)

// namespaces are held for the labels that namespaceSelectors ask for.
var namespaces = scope{resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, metadataOf: "Namespace"}

// relatedRule is a rule of a customize hook and how it is looked up.
type relatedRule struct {
	*plan.Rule
	scope scope
	// label is "key=value" if the selector asks for a label with one value. Of
	// several it is the one with the longest value: a uid or a name leaves fewer
	// objects to look at than an index.
	label string
}

func compileRule(kinds *kinds, r contract.RelatedResourceRule) (*relatedRule, error) {
	k, err := kinds.find(Resource{APIVersion: r.APIVersion, Resource: r.Resource})
	if err != nil {
		return nil, err
	}
	rule, err := plan.NewRule(k, r)
	if err != nil {
		return nil, err
	}
	return &relatedRule{Rule: rule, scope: scopeOf(k.Resource, rule.Selector), label: narrowest(rule.Selector)}, nil
}

func narrowest(selector labels.Selector) string {
	var key, value string
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 && (key == "" || len(values[0]) > len(value)) {
				key, value = r.Key(), values[0]
			}
		}
	}
	if key == "" {
		return ""
	}
	return key + "=" + value
}

// matches tells whether the rule selects an object of its scope. The cache of
// namespaces is used only by rules with a namespaceSelector.
func (r *relatedRule) matches(o *plan.Object, namespaces *objects) bool {
	if !r.MayMatch(o) {
		return false
	}
	if r.NamespaceSelector == nil {
		return true
	}
	namespace := namespaces.get("", o.GetNamespace())
	return namespace != nil && r.NamespaceSelector.Matches(labels.Set(namespace.GetLabels()))
}

// selectFrom returns the objects of a cache that the rule selects, through the
// narrowest index.
func (r *relatedRule) selectFrom(cache, namespaces *objects) []*plan.Object {
	var candidates []*plan.Object
	switch {
	case len(r.Names) > 0 && (r.Namespace != "" || !r.Kind.Namespaced):
		for _, name := range r.Names {
			if o := cache.get(r.Namespace, name); o != nil {
				candidates = append(candidates, o)
			}
		}
	case r.label != "":
		candidates = cache.lookup(byLabel, r.label)
	case r.Namespace != "":
		candidates = cache.lookup(byNamespace, r.Namespace)
	default:
		candidates = cache.all()
	}
	return slices.DeleteFunc(candidates, func(o *plan.Object) bool { return !r.matches(o, namespaces) })
}

// topics are the keys under which a rule is found when an object changes. Each
// object that the rule matches has at least one of them.
func (r *relatedRule) topics() []string {
	switch {
	case len(r.Names) > 0:
		topics := make([]string, len(r.Names))
		for i, name := range r.Names {
			topics[i] = "name " + name
		}
		return topics
	case r.label != "":
		return []string{"label " + r.label}
	case r.Namespace != "":
		return []string{"namespace " + r.Namespace}
	default:
		return []string{""}
	}
}

func topicsOf(o *plan.Object) []string {
	topics := []string{"", "name " + o.GetName(), "namespace " + o.GetNamespace()}
	for key, value := range o.GetLabels() {
		topics = append(topics, "label "+key+"="+value)
	}
	return topics
}

// subscriptions know which parents are to be synced when a related object
// changes. The cost of a change depends on how many parents ask for the object,
// not on how many there are.
type subscriptions struct {
	mu       sync.Mutex
	byParent map[types.NamespacedName][]*relatedRule
	byTopic  map[scope]map[string]map[types.NamespacedName]bool
}

func newSubscriptions() *subscriptions {
	return &subscriptions{
		byParent: map[types.NamespacedName][]*relatedRule{},
		byTopic:  map[scope]map[string]map[types.NamespacedName]bool{},
	}
}

// set replaces the rules of a parent. No rules forget it.
func (s *subscriptions) set(parent types.NamespacedName, rules []*relatedRule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	each := func(rules []*relatedRule, visit func(scope, string)) {
		for _, r := range rules {
			for _, topic := range r.topics() {
				visit(r.scope, topic)
			}
			if r.NamespaceSelector != nil {
				visit(namespaces, "")
			}
		}
	}
	each(s.byParent[parent], func(sc scope, topic string) {
		subscribers := s.byTopic[sc][topic]
		delete(subscribers, parent)
		if len(subscribers) == 0 {
			delete(s.byTopic[sc], topic)
		}
		if len(s.byTopic[sc]) == 0 {
			delete(s.byTopic, sc)
		}
	})
	if len(rules) == 0 {
		delete(s.byParent, parent)
		return
	}
	s.byParent[parent] = rules
	each(rules, func(sc scope, topic string) {
		if s.byTopic[sc] == nil {
			s.byTopic[sc] = map[string]map[types.NamespacedName]bool{}
		}
		if s.byTopic[sc][topic] == nil {
			s.byTopic[sc][topic] = map[types.NamespacedName]bool{}
		}
		s.byTopic[sc][topic][parent] = true
	})
}

// has tells whether a parent asks for objects of a scope.
func (s *subscriptions) has(sc scope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byTopic[sc]) > 0
}

// len counts the parents that ask for something.
func (s *subscriptions) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byParent)
}

// interested returns the parents that ask for an object of a scope.
func (s *subscriptions) interested(sc scope, o *plan.Object) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	byTopic := s.byTopic[sc]
	if byTopic == nil {
		return nil
	}
	var parents []types.NamespacedName
	asks := func(r *relatedRule) bool {
		return r.scope == sc && r.MayMatch(o) || sc == namespaces && r.NamespaceSelector != nil
	}
	for _, topic := range topicsOf(o) {
		for parent := range byTopic[topic] {
			if slices.ContainsFunc(s.byParent[parent], asks) {
				parents = append(parents, parent)
			}
		}
	}
	return parents
}

// question is what the rules of a customize hook answer: a generation of the
// parent, put to hooks of a certain identity.
type question struct{ generation, identity int64 }

// relatedTo returns the objects that the customize hook asks for, and starts the
// watches for them at their first use.
func (a *Applier) relatedTo(ctx context.Context, key types.NamespacedName, parent *plan.Object, state *parentState) (contract.ObjectMap, error) {
	related := contract.ObjectMap{}
	hook := a.controller.Spec.Hooks.Customize
	if hook == nil {
		return related, nil
	}
	if asked := (question{parent.GetGeneration(), a.identity.Load()}); state.rulesFor != asked {
		request := &contract.CustomizeRequest{Controller: a.controllerJSON, Parent: parent.JSON()}
		started := time.Now()
		response, err := call(ctx, "customize", hook, a.hooks.Customize, request)
		a.metrics.hook("customize", started, err)
		if err != nil {
			return nil, err
		}
		if err := response.Validate(); err != nil {
			a.metrics.hookFailed("customize", CauseAnswer)
			return nil, fmt.Errorf("customize hook: %w", err)
		}
		rules := make([]*relatedRule, 0, len(response.RelatedResources))
		for i, r := range response.RelatedResources {
			rule, err := compileRule(a.kinds, r)
			if err == nil && hook.SpeaksV1() && parent.GetNamespace() != "" {
				err = rule.RestrictToV1(parent.GetNamespace())
			}
			if err != nil {
				a.metrics.hookFailed("customize", CauseAnswer)
				return nil, fmt.Errorf("customize hook: relatedResources[%d]: %w", i, err)
			}
			if a.metadataOnly[rule.Kind.Resource.GroupResource()] {
				rule.scope.metadataOf = rule.Kind.Kind
			}
			rules = append(rules, rule)
		}
		state.rules, state.rulesFor = rules, asked
		// Subscribed before the caches are read, so that no change falls between.
		a.subscriptions.set(key, rules)
	}
	var unsynced []*objects
	for _, rule := range state.rules {
		cache := a.caches.start(rule.scope, a.handler, nil)
		var namespaceCache *objects
		if rule.NamespaceSelector != nil {
			namespaceCache = a.caches.start(namespaces, a.handler, nil)
			if !namespaceCache.informer.HasSynced() {
				unsynced = append(unsynced, namespaceCache)
			}
		}
		if !cache.informer.HasSynced() {
			unsynced = append(unsynced, cache)
		}
		if len(unsynced) > 0 {
			continue // the watches of the other rules start as well
		}
		kindKey := rule.Kind.Key()
		if related[kindKey] == nil {
			related[kindKey] = map[string]json.RawMessage{}
		}
		for _, o := range rule.selectFrom(cache, namespaceCache) {
			related.Set(kindKey, contract.ObjectKey(o.GetNamespace(), o.GetName()), o.JSON())
		}
	}
	for _, cache := range unsynced {
		if cache.lastError.Load() != nil {
			return nil, fmt.Errorf("related %w", cache.synced())
		}
	}
	if len(unsynced) > 0 {
		return nil, &plan.NotYet{Reason: "related " + unsynced[0].synced().Error(), After: 50 * time.Millisecond}
	}
	return related, nil
}
