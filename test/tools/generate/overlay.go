package main

import (
	"fmt"
	"strings"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// addition is one entry of the overlay file: what is added to the schema at each
// of its paths. A path is a chain of fields from the root, with [] for the
// items of a list.
type addition struct {
	Paths         []string `json:"paths"`
	Required      []string `json:"required,omitempty"`
	MinItems      *int64   `json:"minItems,omitempty"`
	MaxItems      *int64   `json:"maxItems,omitempty"`
	MaxLength     *int64   `json:"maxLength,omitempty"`
	MaxProperties *int64   `json:"maxProperties,omitempty"`
	Minimum       *float64 `json:"minimum,omitempty"`
	Maximum       *float64 `json:"maximum,omitempty"`

	Rules apiext.ValidationRules `json:"rules,omitempty"`
}

func parseOverlay(text []byte) ([]addition, error) {
	var additions []addition
	if err := yaml.UnmarshalStrict(text, &additions); err != nil {
		return nil, err
	}
	for i, a := range additions {
		if len(a.Paths) == 0 {
			return nil, fmt.Errorf("entry %d has no paths", i)
		}
		for _, r := range a.Rules {
			if r.Rule == "" || r.Message == "" {
				return nil, fmt.Errorf("%s: a rule needs rule and message", a.Paths[0])
			}
		}
	}
	return additions, nil
}

// addTo puts it to the schema at each of its paths.
func (a addition) addTo(root *apiext.JSONSchemaProps) error {
	for _, path := range a.Paths {
		err := edit(root, strings.Split(path, "."), func(at *apiext.JSONSchemaProps) {
			at.Required = append(at.Required, a.Required...)
			at.XValidations = append(at.XValidations, a.Rules...)
			override(&at.MinItems, a.MinItems)
			override(&at.MaxItems, a.MaxItems)
			override(&at.MaxLength, a.MaxLength)
			override(&at.MaxProperties, a.MaxProperties)
			override(&at.Minimum, a.Minimum)
			override(&at.Maximum, a.Maximum)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func override[T any](to **T, value *T) {
	if value != nil {
		*to = value
	}
}

// edit calls f with the schema at the path.
func edit(at *apiext.JSONSchemaProps, path []string, f func(*apiext.JSONSchemaProps)) error {
	if len(path) == 0 {
		f(at)
		return nil
	}
	name, isItems := strings.CutSuffix(path[0], "[]")
	field, ok := at.Properties[name]
	if !ok {
		return fmt.Errorf("no field %q", name)
	}
	// Properties holds values: what is changed has to be put back.
	defer func() { at.Properties[name] = field }()
	if !isItems {
		return edit(&field, path[1:], f)
	}
	if field.Items == nil || field.Items.Schema == nil {
		return fmt.Errorf("field %q is no list", name)
	}
	return edit(field.Items.Schema, path[1:], f)
}
