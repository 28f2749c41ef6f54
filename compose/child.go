package compose

import (
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Child is one child that should exist.
type Child struct {
	APIVersion string
	Kind       string
	Name       string
	// New is the whole object of a child that does not exist yet.
	New any
	// Observed is the child as it was observed; it is returned with only the
	// fields of Set changed.
	Observed json.RawMessage
	// Set are the changes, in order.
	Set []Field
}

// Field is one field and its new value; nil removes it.
type Field struct {
	Path  []string
	Value any
}

// systemMetadata is what the API server owns and no child carries back.
var systemMetadata = []string{
	"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
}

// lastApplied are the annotations in which clients keep what they applied.
var lastApplied = []string{
	"metacontroller.k8s.io/last-applied-configuration",
	"kubectl.kubernetes.io/last-applied-configuration",
}

// NotReturned are the fields, by path, that no child carries back.
func NotReturned() [][]string {
	paths := [][]string{{"status"}}
	for _, key := range systemMetadata {
		paths = append(paths, []string{"metadata", key})
	}
	for _, key := range lastApplied {
		paths = append(paths, []string{"metadata", "annotations", key})
	}
	return paths
}

// Render returns the object to send: without status, system metadata and
// last-applied annotations, with our fields changed.
func (c Child) Render() (map[string]any, error) {
	source := c.Observed
	if c.New != nil {
		var err error
		if source, err = json.Marshal(c.New); err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
	}
	var object map[string]any
	// Whole numbers stay int64, as in every other object of the API machinery.
	if err := utiljson.Unmarshal(source, &object); err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
	}
	object["apiVersion"], object["kind"] = c.APIVersion, c.Kind
	delete(object, "status")
	strip(object)
	for _, f := range c.Set {
		setField(object, f.Path, f.Value)
	}
	return object, nil
}

// strip removes what the API server or a client keeps in metadata.
func strip(object map[string]any) {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return
	}
	for _, key := range systemMetadata {
		delete(metadata, key)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		for _, key := range lastApplied {
			delete(annotations, key)
		}
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
}

func setField(object map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		next, ok := object[key].(map[string]any)
		if !ok {
			if value == nil {
				return
			}
			next = map[string]any{}
			object[key] = next
		}
		object = next
	}
	last := path[len(path)-1]
	if value == nil {
		delete(object, last)
		return
	}
	object[last] = value
}
