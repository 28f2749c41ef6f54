package crd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"rtj.dev/rtj/api/v1beta1"
)

const root = "../.."

func TestExamplesAreAccepted(t *testing.T) {
	definition := load(t)
	files, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	jobs := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if object.GetKind() != v1beta1.Kind {
				continue
			}
			jobs++
			// The namespace is the request's.
			object.SetNamespace("default")
			if _, errs := definition.Create(object); len(errs) > 0 {
				t.Errorf("%s: %v", file, errs.ToAggregate())
			}
		}
	}
	if jobs == 0 {
		t.Error("no example of a job")
	}
}

// docs/api.md has a row for each field of the spec that is not JobSet's.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	for path, props := range everyField(t) {
		field, isSpec := strings.CutPrefix(path, "spec.")
		leaf := len(props.Properties) == 0 && !strings.ContainsAny(path, "[{")
		if !isSpec || !leaf || strings.HasPrefix(path, "spec.template.") {
			continue
		}
		if !strings.Contains(string(text), "| `"+field+"` | ") {
			t.Errorf("docs/api.md has no row for spec.%s", field)
		}
	}
}
