package plan

import (
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations that hold a second copy of an object. They are of use only to the
// program that wrote them.
var lastApplied = []string{
	"kubectl.kubernetes.io/last-applied-configuration",
	"metacontroller.k8s.io/last-applied-configuration",
}

// Object is one version of an object as it was observed. It is shared and must
// not be modified.
type Object struct {
	*unstructured.Unstructured
	// Size is about how many bytes of memory the object takes; 0: not known.
	Size int

	// What tells the object apart, which is asked for all the time.
	uid             types.UID
	namespace, name string
	// labels, if they are known apart from the body.
	labels map[string]string
	// encode makes the JSON; nil: encoding/json does.
	encode func() []byte
	once   sync.Once
	raw    json.RawMessage
}

// Observe takes over an object that came from the API server. What no decision
// reads and no write sends is dropped, so that it costs no memory.
func Observe(object *unstructured.Unstructured) *Object {
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
	o := newObject(object)
	o.Size = sizeOf(object.Object)
	return o
}

func newObject(object *unstructured.Unstructured) *Object {
	return &Object{Unstructured: object, uid: object.GetUID(), namespace: object.GetNamespace(), name: object.GetName()}
}

// Shared is [Observe] for a body that holds nothing to be dropped and is not to
// be modified. It takes more memory and less time. encode gives the JSON of the body
// to whoever has it already; nil: it is made when it is asked for.
func Shared(body map[string]any, encode func() []byte) *Object {
	object := &unstructured.Unstructured{Object: body}
	set := object.GetLabels()
	if set == nil {
		set = map[string]string{}
	}
	o := newObject(object)
	o.labels, o.encode = set, encode
	return o
}

// GetUID returns the UID.
func (o *Object) GetUID() types.UID { return o.uid }

// GetNamespace returns the namespace; empty for an object that is in none.
func (o *Object) GetNamespace() string { return o.namespace }

// GetName returns the name.
func (o *Object) GetName() string { return o.name }

// GetLabels returns the labels, which must not be modified.
func (o *Object) GetLabels() map[string]string {
	if o.labels != nil {
		return o.labels
	}
	return o.Unstructured.GetLabels()
}

// WithoutBody returns what is left of an object of which only metadata is wanted.
func WithoutBody(object *unstructured.Unstructured) *unstructured.Unstructured {
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

// JSON returns the object as hooks get it. It is made once for each version of
// an object, however many parents are shown it.
func (o *Object) JSON() json.RawMessage {
	o.once.Do(func() {
		if o.encode != nil {
			o.raw = o.encode()
			return
		}
		raw, err := json.Marshal(o.Object)
		if err != nil {
			// Impossible: the object was decoded from JSON.
			panic(fmt.Sprintf("%s %s: %v", o.GroupVersionKind(), o.GetName(), err))
		}
		o.raw = raw
	})
	return o.raw
}

// ControllerOf returns the owner that controls an object, or nil.
func ControllerOf(o *Object) *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(o) }

// Terminating tells whether an object is being deleted.
func Terminating(o *Object) bool {
	metadata, _ := o.Object["metadata"].(map[string]any)
	return metadata["deletionTimestamp"] != nil
}
