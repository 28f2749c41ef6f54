package contract

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ObjectMap holds objects by kind and then by place: the key of the outer map is
// a [KindKey], that of the inner one an [ObjectKey].
type ObjectMap map[string]map[string]json.RawMessage

// KindKey returns the key of a kind: "Pod.v1", or "JobSet.jobset.x-k8s.io/v1alpha2".
// apiVersion is written as in objects: "v1", or "jobset.x-k8s.io/v1alpha2".
func KindKey(apiVersion, kind string) string { return kind + "." + apiVersion }

// KindKeyOf is [KindKey] for a GroupVersionKind.
func KindKeyOf(gvk schema.GroupVersionKind) string {
	return KindKey(gvk.GroupVersion().String(), gvk.Kind)
}

// ParseKindKey is the inverse of [KindKeyOf].
func ParseKindKey(key string) (schema.GroupVersionKind, error) {
	kind, apiVersion, _ := strings.Cut(key, ".")
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", apiVersion
	}
	if kind == "" || version == "" || grouped && group == "" || strings.Contains(version, "/") ||
		!grouped && strings.Contains(version, ".") {
		return schema.GroupVersionKind{}, fmt.Errorf("%q is not a kind: want Kind.version or Kind.group/version", key)
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, nil
}

// ObjectKey returns the place of an object: "namespace/name", or "name" where
// namespace is empty because the kind is cluster-scoped.
func ObjectKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// SplitObjectKey is the inverse of [ObjectKey].
func SplitObjectKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", key
	}
	return namespace, name
}

// Get returns the object at a place, or nil.
func (m ObjectMap) Get(kindKey, objectKey string) json.RawMessage { return m[kindKey][objectKey] }

// Set puts an object at a place. The map must not be nil.
func (m ObjectMap) Set(kindKey, objectKey string, object json.RawMessage) {
	if m[kindKey] == nil {
		m[kindKey] = map[string]json.RawMessage{}
	}
	m[kindKey][objectKey] = object
}

// Kind yields the objects of one kind in the order of their keys, so that
// whatever is made of them comes out the same each time.
func (m ObjectMap) Kind(kindKey string) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		objects := m[kindKey]
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if !yield(key, objects[key]) {
				return
			}
		}
	}
}

// Len counts the objects of all kinds.
func (m ObjectMap) Len() int {
	n := 0
	for _, objects := range m {
		n += len(objects)
	}
	return n
}

// RelativeTo returns the map as version v1 of the messages has it. For a parent in
// a namespace the key of an object is its name alone, and what is cluster-scoped
// or in another namespace is left out; the kinds stay. For a cluster-scoped parent
// (namespace is empty) both versions have the same map.
func (m ObjectMap) RelativeTo(namespace string) ObjectMap {
	if namespace == "" {
		return m
	}
	relative := make(ObjectMap, len(m))
	for kind, objects := range m {
		relative[kind] = make(map[string]json.RawMessage, len(objects))
		for key, object := range objects {
			if where, name := SplitObjectKey(key); where == namespace {
				relative[kind][name] = object
			}
		}
	}
	return relative
}

func (m ObjectMap) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, kind := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, kind), ':', '{')
		first := true
		for key, object := range m.Kind(kind) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(append(appendString(dst, key), ':'), object...)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func appendString(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // impossible for a string
	}
	return append(dst, quoted...)
}
