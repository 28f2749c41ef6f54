package hooks

import (
	"encoding/json"
	"fmt"
	"sync"

	"rtj.dev/rtj/compose"
)

// render writes a child as [compose.Child.Render] says: as observed, with only our
// fields changed, without what no child carries back. It copies what it does not
// change instead of decoding it; a test holds it to the other.
func render(c *compose.Child) (json.RawMessage, error) {
	source := []byte(c.Observed)
	if c.New != nil {
		var err error
		if source, err = json.Marshal(c.New); err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
	}
	changes, err := changesOf(c)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
	}
	out, ok := changes.apply(make([]byte, 0, len(source)+256), source)
	if !ok {
		return nil, fmt.Errorf("%s %s: not an object", c.Kind, c.Name)
	}
	return out, nil
}

// changesOf are the changes that make an observed object the one to return. Those
// of a child whose own fields stay are shared.
func changesOf(c *compose.Child) (*edit, error) {
	if len(c.Set) > 0 {
		changes := newChanges(c.APIVersion, c.Kind)
		for _, f := range c.Set {
			if err := changes.set(f); err != nil {
				return nil, err
			}
		}
		return changes, nil
	}
	kind := [2]string{c.APIVersion, c.Kind}
	if known, ok := changesByKind.Load(kind); ok {
		return known.(*edit), nil
	}
	changes := newChanges(c.APIVersion, c.Kind)
	changesByKind.Store(kind, changes)
	return changes, nil
}

// changesByKind are the changes of children of which no field is set. There are
// as many as the core has kinds of children.
var changesByKind sync.Map

// newChanges are the changes that every child of a kind gets.
func newChanges(apiVersion, kind string) *edit {
	changes := &edit{}
	for _, path := range notReturned {
		changes.at(path).drop = true
	}
	changes.at(annotations).dropEmpty = true
	for key, value := range map[string]string{"apiVersion": apiVersion, "kind": kind} {
		text, _ := json.Marshal(value) // a string always encodes
		changes.at([]string{key}).value = text
	}
	return changes
}

// set adds the change of one field.
func (e *edit) set(f compose.Field) error {
	if f.Value == nil {
		*e.at(f.Path) = edit{drop: true}
		return nil
	}
	value, err := json.Marshal(f.Value)
	if err != nil {
		return err
	}
	*e.at(f.Path) = edit{value: value}
	return nil
}

var (
	notReturned = compose.NotReturned()
	annotations = []string{"metadata", "annotations"}
)
