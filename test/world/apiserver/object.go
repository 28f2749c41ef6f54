package apiserver

import (
	"strconv"
	"sync"
	"sync/atomic"
)

// Object is one version of an object. It must not be changed.
type Object struct {
	Kind, Namespace, Name, UID string
	// Version is the resourceVersion.
	Version    int64
	Generation int64
	// Body is the whole object, as JSON values: int64, float64, string, bool, nil,
	// []any and map[string]any.
	Body map[string]any

	// labels, annotations, deleting, finalizers, owner and owners are in the body's
	// metadata, and conditions in its status.
	labels, annotations map[string]any
	deleting            bool
	finalizers          []string
	owner               string
	owners              []string
	conditions          []typed

	// json is the encoded body, and parts its members, once encoded; inherited are the
	// parts of the newest version before that was, when this one was made.
	encode    sync.Once
	encoded   atomic.Bool
	json      []byte
	parts     []part
	inherited []part

	// mu guards what follows: clones of a world share versions.
	mu      sync.Mutex
	cached  []derived
	derived []derived
	// before is what was derived of the newest version before of which anything was.
	before []derived
}

// derived is what was made of a body.
type derived struct {
	key  any
	body map[string]any
	made any
}

// Of makes an object of a body that no server has seen.
func Of(body map[string]any) *Object { return newObject(body, nil) }

// newObject makes a version of an object; old is the one before, nil at first.
func newObject(body map[string]any, old *Object) *Object {
	o := &Object{Body: body, inherited: partsOf(old), before: old.derivations()}
	o.Kind = o.Text("kind")
	o.conditions = typedOf(o.List("status", "conditions"))
	meta, _ := body["metadata"].(map[string]any)
	o.Namespace, _ = meta["namespace"].(string)
	o.Name, _ = meta["name"].(string)
	o.UID, _ = meta["uid"].(string)
	o.Generation, _ = meta["generation"].(int64)
	version, _ := meta["resourceVersion"].(string)
	o.Version, _ = strconv.ParseInt(version, 10, 64)
	o.labels, _ = meta["labels"].(map[string]any)
	o.annotations, _ = meta["annotations"].(map[string]any)
	o.deleting = meta["deletionTimestamp"] != nil
	finalizers, _ := meta["finalizers"].([]any)
	for _, item := range finalizers {
		if name, ok := item.(string); ok {
			o.finalizers = append(o.finalizers, name)
		}
	}
	owners, _ := meta["ownerReferences"].([]any)
	for _, item := range owners {
		r, _ := item.(map[string]any)
		uid, _ := r["uid"].(string)
		o.owners = append(o.owners, uid)
		if r["controller"] == true && o.owner == "" {
			o.owner = uid
		}
	}
	return o
}

// Key names the object for people: namespace/name, or the name alone.
func (o *Object) Key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

func (o *Object) String() string { return o.Kind + " " + o.Key() }

// At returns the value at a path of keys; nil when there is none.
func (o *Object) At(path ...string) any { return at(o.Body, path...) }

func at(body map[string]any, path ...string) any {
	var value any = body
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

// Text returns a string; empty when there is none.
func (o *Object) Text(path ...string) string {
	text, _ := o.At(path...).(string)
	return text
}

// Int returns a whole number; 0 when there is none.
func (o *Object) Int(path ...string) int64 {
	switch n := o.At(path...).(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// Bool returns a boolean; false when there is none.
func (o *Object) Bool(path ...string) bool {
	is, _ := o.At(path...).(bool)
	return is
}

// List returns a list; nil when there is none.
func (o *Object) List(path ...string) []any {
	list, _ := o.At(path...).([]any)
	return list
}

// Label returns the value of a label; empty when there is none.
func (o *Object) Label(key string) string {
	text, _ := o.labels[key].(string)
	return text
}

// Annotation returns the value of an annotation; empty when there is none.
func (o *Object) Annotation(key string) string {
	text, _ := o.annotations[key].(string)
	return text
}

// Condition returns the condition of a type, of an object that the server has; nil when
// there is none.
func (o *Object) Condition(kind string) map[string]any {
	for i := range o.conditions {
		if o.conditions[i].kind == kind {
			return o.conditions[i].condition
		}
	}
	return nil
}

// typed is a condition by its type.
type typed struct {
	kind      string
	condition map[string]any
}

func typedOf(conditions []any) []typed {
	if len(conditions) == 0 {
		return nil
	}
	list := make([]typed, 0, len(conditions))
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if kind, ok := c["type"].(string); ok {
			list = append(list, typed{kind, c})
		}
	}
	return list
}

// True reports whether a condition is.
func (o *Object) True(kind string) bool { return o.Condition(kind)["status"] == "True" }

// Deleting reports whether the object is to go.
func (o *Object) Deleting() bool { return o.deleting }

// Finalizers are those that keep a deleted object. The slice must not be changed.
func (o *Object) Finalizers() []string { return o.finalizers }

// Owner is the UID of the controller; empty when there is none.
func (o *Object) Owner() string { return o.owner }

// Cached returns what make derives from this version. It is made once for a key, and
// must not be changed; make must not use the cache of the same object.
func (o *Object) Cached(key any, make func() any) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.cached {
		if o.cached[i].key == key {
			return o.cached[i].made
		}
	}
	made := make()
	o.cached = append(o.cached, derived{key: key, made: made})
	return made
}

// Derived is [Object.Cached] for what can be made of what was made of an older
// version: make gets that version's body and what was made of it, nil both if there
// is none.
func (o *Object) Derived(key any, make func(before map[string]any, was any) any) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d := derivedBy(o.derived, key); d.made != nil {
		return d.made
	}
	was := derivedBy(o.before, key)
	made := make(was.body, was.made)
	o.derived = append(o.derived, derived{key, o.Body, made})
	return made
}

func derivedBy(list []derived, key any) derived {
	for _, d := range list {
		if d.key == key {
			return d
		}
	}
	return derived{}
}

// derivations are what the next version can be derived from.
func (o *Object) derivations() []derived {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.derived) > 0 {
		return o.derived
	}
	return o.before
}
