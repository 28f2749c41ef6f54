package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Status is the name of the subresource.
const Status = "status"

func resource(kind string) schema.GroupResource { return schema.GroupResource{Resource: kind} }

// Create creates an object; its status is dropped, as for kinds with the subresource.
// It is AlreadyExists where the name is taken, and Forbidden in a namespace that ends.
func (s *Server) Create(by string, body map[string]any) (*Object, error) {
	body = maps.Clone(body)
	meta, _ := body["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	body["metadata"] = meta
	delete(body, "status")
	kind, _ := body["kind"].(string)
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	if kind == "" || name == "" {
		return nil, apierrors.NewBadRequest("kind and metadata.name are required")
	}
	if s.Get(kind, namespace, name) != nil {
		return nil, apierrors.NewAlreadyExists(resource(kind), name)
	}
	if ns := s.Get("Namespace", "", namespace); namespace != "" && ns != nil && ns.Deleting() {
		err := apierrors.NewForbidden(resource(kind), name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
		return nil, err
	}
	for _, key := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"} {
		delete(meta, key)
	}
	for _, f := range s.defaults[kind] {
		body = f(body)
	}
	meta["uid"] = "uid-" + strconv.FormatInt(s.uids+1, 10)
	meta["creationTimestamp"] = s.Timestamp()
	meta["generation"] = int64(1)
	meta["resourceVersion"] = strconv.FormatInt(s.revision+1, 10)
	o := newObject(body, nil)
	if err := s.check(kind, nil, o); err != nil {
		return nil, err
	}
	s.uids++
	s.revision++
	s.store(by, nil, o)
	return o, nil
}

func (s *Server) check(kind string, old, next *Object) error {
	for _, f := range s.admit[kind] {
		if err := f(s, old, next); err != nil {
			return err
		}
	}
	return nil
}

// Patch makes a JSON merge patch. Where metadata in it has uid or resourceVersion,
// they are preconditions, and Conflict where they do not hold. A patch of the main
// resource changes no status, one of Status nothing else.
func (s *Server) Patch(by, kind, namespace, name string, body map[string]any, subresource string) (*Object, error) {
	old := s.Get(kind, namespace, name)
	if old == nil {
		return nil, apierrors.NewNotFound(resource(kind), name)
	}
	meta, _ := body["metadata"].(map[string]any)
	for _, key := range []string{"uid", "resourceVersion"} {
		is := old.Text("metadata", key)
		if want, ok := meta[key]; ok && want != is {
			return nil, apierrors.NewConflict(resource(kind), name, fmt.Errorf("the object has been modified: %s is %s, not %v", key, is, want))
		}
	}
	return s.replace(by, old, merge(old.Body, body), subresource)
}

// Update changes an object as it is in o: Conflict when it has changed since. change
// gets a copy of its own.
func (s *Server) Update(by string, o *Object, subresource string, change func(body map[string]any)) (*Object, error) {
	old := s.Get(o.Kind, o.Namespace, o.Name)
	if old == nil {
		return nil, apierrors.NewNotFound(resource(o.Kind), o.Name)
	}
	if old.UID != o.UID || old.Version != o.Version {
		return nil, apierrors.NewConflict(resource(o.Kind), o.Name, errors.New("the object has been modified"))
	}
	body := maps.Clone(old.Body)
	for key, value := range body {
		if (key == Status) == (subresource == Status) {
			body[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	change(body)
	return s.replace(by, old, body, subresource)
}

// owned by the server, and not for anybody to change.
var fixed = []string{"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"}

// replace stores another body of an object, as far as the subresource goes. The body's
// map is the server's from now on; what is in it is not changed.
func (s *Server) replace(by string, old *Object, body map[string]any, subresource string) (*Object, error) {
	next := body
	was, _ := old.Body["metadata"].(map[string]any)
	var meta map[string]any
	if subresource == Status {
		next = maps.Clone(old.Body)
		setOrDelete(next, Status, body[Status])
		if Same(old.Body, next) {
			return old, nil
		}
		meta = maps.Clone(was)
	} else {
		is, _ := body["metadata"].(map[string]any)
		meta = maps.Clone(is)
		for _, key := range fixed {
			setOrDelete(meta, key, was[key])
		}
		for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
			dropEmpty(meta, key)
		}
		setOrDelete(next, Status, old.Body[Status])
		next["metadata"] = meta
		if Same(old.Body, next) {
			return old, nil
		}
	}
	next["metadata"] = meta
	if subresource == "" && !sameButMeta(old.Body, next) {
		meta["generation"] = old.Generation + 1
	}
	meta["resourceVersion"] = strconv.FormatInt(s.revision+1, 10)
	o := newObject(next, old)
	if err := s.check(o.Kind, old, o); err != nil {
		return nil, err
	}
	if old.Deleting() {
		for _, f := range o.Finalizers() {
			if !slices.Contains(old.Finalizers(), f) {
				return nil, apierrors.NewForbidden(resource(o.Kind), o.Name, errors.New("metadata.finalizers: no new finalizers can be added if the object is being deleted"))
			}
		}
		// A pod stays for its grace period all the same.
		if len(o.Finalizers()) == 0 && len(old.Finalizers()) > 0 && old.Int("metadata", "deletionGracePeriodSeconds") == 0 {
			s.store(by, old, nil)
			return o, nil
		}
	}
	s.revision++
	s.store(by, old, o)
	return o, nil
}

func setOrDelete(m map[string]any, key string, value any) {
	if value == nil {
		delete(m, key)
	} else {
		m[key] = value
	}
}

// dropEmpty removes an empty list or map, which the server does not store.
func dropEmpty(m map[string]any, key string) {
	switch v := m[key].(type) {
	case map[string]any:
		if len(v) == 0 {
			delete(m, key)
		}
	case []any:
		if len(v) == 0 {
			delete(m, key)
		}
	case nil:
		delete(m, key)
	}
}

func sameButMeta(a, b map[string]any) bool {
	for key := range a {
		if key != "metadata" && key != Status && !Same(a[key], b[key]) {
			return false
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok && key != "metadata" && key != Status {
			return false
		}
	}
	return true
}

// Same compares JSON values; a shared map or list is not looked into.
func Same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		if reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() {
			return true
		}
		for key, value := range a {
			other, ok := b[key]
			if !ok || !Same(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		if len(a) > 0 && &a[0] == &b[0] {
			return true
		}
		for i := range a {
			if !Same(a[i], b[i]) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}

// merge is RFC 7386; what the patch does not touch is shared.
func merge(old map[string]any, patch map[string]any) map[string]any {
	merged := maps.Clone(old)
	if merged == nil {
		merged = make(map[string]any, len(patch))
	}
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			sub, _ := merged[key].(map[string]any)
			merged[key] = merge(sub, v)
		default:
			merged[key] = v
		}
	}
	return merged
}
