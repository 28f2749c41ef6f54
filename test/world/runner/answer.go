package runner

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier/plan"
)

// answerOf is what the hook answers, without the way through its messages: a child
// that stays as it was observed is told by identity, one that changes shares what
// does not.
func answerOf(f *flight, d *compose.Decision, resync time.Duration) (*plan.Answer, error) {
	a := &plan.Answer{
		Children:           make([]plan.Want, len(d.Children)),
		ResyncAfterSeconds: resync.Round(time.Millisecond).Seconds(),
		Finalized:          d.Finalized,
	}
	for i := range d.Children {
		var err error
		if a.Children[i], err = wantOf(f, &d.Children[i]); err != nil {
			return nil, err
		}
	}
	parent, err := decodedParent(f.parent)
	if err != nil {
		return nil, err
	}
	if a.Status, a.SameStatus, err = statusOf(f.parent.Body["status"], &parent.Status, d.Status); a.SameStatus {
		a.Status = nil
	}
	return a, err
}

func wantOf(f *flight, c *compose.Child) (plan.Want, error) {
	namespace := f.parent.Namespace
	w := plan.Want{Identity: contract.Identity{APIVersion: c.APIVersion, Kind: c.Kind, Namespace: namespace, Name: c.Name}}
	k, ok := kindsByName[c.Kind]
	if !ok || k < workloads || k > configMaps {
		return w, fmt.Errorf("a child of kind %s", c.Kind)
	}
	observed, exists := f.round.Claimed[plan.ChildKey{Kind: controller.Children[k-workloads], Namespace: namespace, Name: c.Name}]
	switch {
	case c.New != nil:
		value, err := valueOf(reflect.ValueOf(c.New))
		if err != nil {
			return w, err
		}
		object := value.(map[string]any)
		object["apiVersion"], object["kind"] = c.APIVersion, c.Kind
		w.Object = object
		return w, set(object, c.Set)
	case !exists:
		return w, fmt.Errorf("%s %s is returned as it was observed, which it was not", c.Kind, c.Name)
	case len(c.Set) == 0:
		w.Same = true
		return w, nil
	}
	w.Object = copied(observed.Unstructured.Object)
	delete(w.Object, "status")
	meta := copied(w.Object["metadata"])
	w.Object["metadata"] = meta
	if meta["annotations"] != nil {
		meta["annotations"] = copied(meta["annotations"])
	}
	return w, set(w.Object, c.Set)
}

// set changes fields of an object that is the caller's at the top; below, what lies
// on the way to a field is copied.
func set(object map[string]any, fields []compose.Field) error {
	for _, f := range fields {
		var value any
		if f.Value != nil {
			var err error
			if value, err = valueOf(reflect.ValueOf(f.Value)); err != nil {
				return err
			}
		}
		setField(object, f.Path, value)
	}
	return nil
}

func setField(object map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		next, ok := object[key].(map[string]any)
		if !ok && value == nil {
			return
		}
		next = maps.Clone(next)
		if next == nil {
			next = map[string]any{}
		}
		object[key] = next
		object = next
	}
	if last := path[len(path)-1]; value == nil {
		delete(object, last)
	} else {
		object[last] = value
	}
}
