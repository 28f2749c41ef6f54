package crd

import (
	"reflect"
	"strings"
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
			compare(t, c.Refused, errs)
			for path, want := range c.Stored {
				got := &unstructured.Unstructured{Object: map[string]any{}}
				if err := apicases.Change(got, map[string]any{"want": want}); err != nil {
					t.Fatal(err)
				}
				if v := apicases.Get(stored, path); !reflect.DeepEqual(v, got.Object["want"]) {
					t.Errorf("%s is stored as %#v, want %#v", path, v, want)
				}
			}
		})
	}
}

// compare wants each refusal once, and no other error. The remark that CEL rules
// were skipped comes with errors of the schema and is none of its own.
func compare(t *testing.T, want []apicases.Refusal, got field.ErrorList) {
	t.Helper()
	rest := append(field.ErrorList{}, got...)
	for _, w := range want {
		found := -1
		for i, err := range rest {
			if err.Field == w.Field && strings.Contains(err.ErrorBody(), w.Message) {
				found = i
			}
		}
		if found < 0 {
			t.Errorf("no error at %s that says %q", w.Field, w.Message)
			continue
		}
		rest = append(rest[:found], rest[found+1:]...)
	}
	for _, err := range rest {
		if strings.Contains(err.Detail, "some validation rules were not checked") {
			continue
		}
		t.Errorf("unwanted: %v", err)
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
