package main

import (
	"strings"
	"testing"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const small = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jobs.example.com, creationTimestamp: null}
spec:
  group: example.com
  names: {kind: Job, plural: jobs}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              queue:
                type: string
                description: the queue
                x-kubernetes-validations: [{rule: self == oldSelf, message: ours}]
              template:
                type: object
                description: the template
                properties:
                  spec:
                    type: object
                    description: the JobSet
                    properties:
                      jobs:
                        type: array
                        description: foreign
                        items:
                          type: object
                          properties:
                            name:
                              type: string
                              description: foreign
                              x-kubernetes-validations:
                              - {rule: self == oldSelf, message: foreign}
                              - {rule: self != "", message: kept}
`

func TestFinishedDefinition(t *testing.T) {
	overlay, err := parseOverlay([]byte(`
- paths: ['spec.template.spec.jobs']
  maxItems: 8
- paths: ['spec.template.spec.jobs[].name']
  rules: [{rule: self != "x", message: added}]
`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := finishDefinition([]byte(small), overlay)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the queue", "the template", "the JobSet", "ours", "kept", "added", "maxItems: 8"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, unwanted := range []string{"foreign", "creationTimestamp", "status:"} {
		if strings.Contains(string(text), unwanted) {
			t.Errorf("%q is left", unwanted)
		}
	}
	var definition apiext.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		t.Error(err)
	}
}

func TestOverlayMustFitTheTypes(t *testing.T) {
	for text, want := range map[string]string{
		"- paths: [spec.template.spec.tasks]\n  maxItems: 8": `spec.template.spec.tasks: no field "tasks"`,
		"- paths: ['spec.queue[]']\n  maxItems: 8":           `field "queue" is no list`,
		"- paths: [spec.queue]\n  maxItem: 8":                `unknown field "maxItem"`,
		"- paths: [spec.queue]\n  rules: [{rule: 'true'}]":   "a rule needs rule and message",
		"- maxItems: 8": "entry 0 has no paths",
		"- paths: [spec.template.spec.jobs.name]\n  rules: [{rule: x, message: y}]": `no field "name"`,
	} {
		overlay, err := parseOverlay([]byte(text))
		if err == nil {
			_, err = finishDefinition([]byte(small), overlay)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngives %v, want %s", text, err, want)
		}
	}
}
