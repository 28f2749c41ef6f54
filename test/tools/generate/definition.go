package main

import (
	"fmt"
	"slices"
	"strings"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const header = "# Generated from api/v1beta1 by make generate. Its size needs server-side apply:\n# kubectl apply --server-side -f\n"

// finishDefinition turns the definition that controller-tools generated into
// the one that is installed:
//
//   - transition rules are dropped under spec.template: JobSet's fields are
//     immutable in a JobSet, and here they may change between attempts;
//   - so are descriptions under spec.template.spec, which are Kubernetes' own and
//     would triple the size;
//   - the overlay file is added.
func finishDefinition(generated []byte, overlay []addition) ([]byte, error) {
	var definition apiext.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(generated, &definition); err != nil {
		return nil, err
	}
	for _, version := range definition.Spec.Versions {
		root := version.Schema.OpenAPIV3Schema
		if err := edit(root, []string{"spec", "template"}, dropTransitionRules); err != nil {
			return nil, fmt.Errorf("version %s: spec.template: %w", version.Name, err)
		}
		if err := edit(root, []string{"spec", "template", "spec"}, dropInnerDescriptions); err != nil {
			return nil, fmt.Errorf("version %s: spec.template.spec: %w", version.Name, err)
		}
		for _, a := range overlay {
			if err := a.addTo(root); err != nil {
				return nil, fmt.Errorf("version %s: %w", version.Name, err)
			}
		}
	}
	return marshal(definition)
}

func dropTransitionRules(at *apiext.JSONSchemaProps) {
	visit(at, func(s *apiext.JSONSchemaProps) {
		s.XValidations = slices.DeleteFunc(s.XValidations, func(r apiext.ValidationRule) bool {
			return strings.Contains(r.Rule, "oldSelf")
		})
	})
}

func dropInnerDescriptions(at *apiext.JSONSchemaProps) {
	own := at.Description
	visit(at, func(s *apiext.JSONSchemaProps) { s.Description = "" })
	at.Description = own
}

// visit calls f with the schema and everything in it.
func visit(at *apiext.JSONSchemaProps, f func(*apiext.JSONSchemaProps)) {
	f(at)
	for name, field := range at.Properties {
		visit(&field, f)
		at.Properties[name] = field
	}
	if at.Items != nil && at.Items.Schema != nil {
		visit(at.Items.Schema, f)
	}
	if at.AdditionalProperties != nil && at.AdditionalProperties.Schema != nil {
		visit(at.AdditionalProperties.Schema, f)
	}
}

// marshal leaves out the status, which is the API server's.
func marshal(definition apiext.CustomResourceDefinition) ([]byte, error) {
	text, err := yaml.Marshal(definition)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	delete(object, "status")
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	if text, err = yaml.Marshal(object); err != nil {
		return nil, err
	}
	return append([]byte(header), text...), nil
}
