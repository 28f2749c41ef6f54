package crd

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"rtj.dev/rtj/test/apicases"
)

const file = "../../api/crd/training.rtj.dev_resumabletrainingjobs.yaml"

func TestAPIServerAcceptsDefinition(t *testing.T) {
	for _, err := range load(t).Check() {
		t.Error(err)
	}
}

func TestJobs(t *testing.T) {
	definition := load(t)
	cases, err := apicases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Group+"/"+c.Name, func(t *testing.T) {
			before, written, err := c.Objects()
			if err != nil {
				t.Fatal(err)
			}
			var stored *unstructured.Unstructured
			var errs field.ErrorList
			if before == nil {
				stored, errs = definition.Create(written)
			} else {
				if _, errs := definition.Create(before); len(errs) > 0 {
					t.Fatalf("the object before the update is refused: %v", errs.ToAggregate())
				}
				stored, errs = definition.Update(before, written)
			}
			var refusals []apicases.Refusal
			for _, err := range errs {
				refusals = append(refusals, apicases.Refusal{Field: err.Field, Message: err.ErrorBody()})
			}
			for _, difference := range c.CompareRefusals(refusals) {
				t.Error(difference)
			}
			for _, difference := range c.CompareStored(stored) {
				t.Error(difference)
			}
		})
	}
}

func load(t *testing.T) *Definition {
	t.Helper()
	definition, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return definition
}
