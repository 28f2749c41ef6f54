package applier

import (
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Annotations that hold a second copy of an object. They are of use only to the
// program that wrote them.
var lastApplied = []string{
	"kubectl.kubernetes.io/last-applied-configuration",
	"metacontroller.k8s.io/last-applied-configuration",
}

// observed is one version of an object as the caches hold it. It is shared and
// must not be modified.
type observed struct {
	*unstructured.Unstructured
	// size is about how many bytes of memory the object takes.
	size int
	once sync.Once
	raw  json.RawMessage
}

// observe takes over an object that came from the API server. What no decision
// reads and no write sends is dropped, so that it costs no memory.
func observe(object *unstructured.Unstructured) *observed {
	if metadata, ok := object.Object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			for _, key := range lastApplied {
				delete(annotations, key)
			}
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	return &observed{Unstructured: object, size: sizeOf(object.Object)}
}

// withoutBody returns what is left of an object of which only metadata is wanted.
func withoutBody(object *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": object.Object["apiVersion"], "kind": object.Object["kind"], "metadata": object.Object["metadata"],
	}}
}

// sizeOf returns about how many bytes a decoded JSON value takes.
func sizeOf(value any) int {
	const header, entry = 16, 56 // of an interface value or string; of an entry of a map
	switch v := value.(type) {
	case map[string]any:
		size := header
		for key, member := range v {
			size += entry + len(key) + sizeOf(member)
		}
		return size
	case []any:
		size := header
		for _, element := range v {
			size += header + sizeOf(element)
		}
		return size
	case string:
		return header + len(v)
	default:
		return header
	}
}

// json returns the object as hooks get it. It is made once for each version of
// an object, however many parents are shown it.
func (o *observed) json() json.RawMessage {
	o.once.Do(func() {
		raw, err := json.Marshal(o.Object)
		if err != nil {
			// Impossible: the object was decoded from JSON.
			panic(fmt.Sprintf("%s %s: %v", o.GroupVersionKind(), o.GetName(), err))
		}
		o.raw = raw
	})
	return o.raw
}

// transform makes the caches hold observed objects.
func (s scope) transform(object any) (any, error) {
	switch o := object.(type) {
	case *unstructured.Unstructured:
		return observe(o), nil
	case *metav1.PartialObjectMetadata:
		metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o.ObjectMeta)
		if err != nil {
			return nil, err
		}
		return observe(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": s.resource.GroupVersion().String(), "kind": s.metadataOf, "metadata": metadata,
		}}), nil
	case *observed, cache.DeletedFinalStateUnknown:
		return o, nil
	default:
		return nil, fmt.Errorf("unexpected %T from the API server", object)
	}
}

// controllerOf returns the owner that controls an object, or nil.
func controllerOf(o *observed) *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(o) }

func terminating(o *observed) bool { return o.GetDeletionTimestamp() != nil }
