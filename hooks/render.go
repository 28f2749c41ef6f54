package hooks

import (
	"encoding/json"
	"fmt"

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
	changes := &edit{}
	for _, path := range notReturned {
		changes.at(path).drop = true
	}
	changes.at(annotations).dropEmpty = true
	fields := append([]compose.Field{
		{Path: []string{"apiVersion"}, Value: c.APIVersion},
		{Path: []string{"kind"}, Value: c.Kind},
	}, c.Set...)
	for _, f := range fields {
		change := changes.at(f.Path)
		if f.Value == nil {
			*change = edit{drop: true}
			continue
		}
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
		*change = edit{value: value}
	}
	out, ok := changes.apply(make([]byte, 0, len(source)+256), source)
	if !ok {
		return nil, fmt.Errorf("%s %s: not an object", c.Kind, c.Name)
	}
	return out, nil
}

var (
	notReturned = compose.NotReturned()
	annotations = []string{"metadata", "annotations"}
)
