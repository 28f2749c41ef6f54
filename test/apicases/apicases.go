// Package apicases holds what the API server must accept and refuse, as data.
// The same cases run against the schema in process (test/crd) and against a
// real kube-apiserver (test/e2e).
package apicases

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed base.yaml cases/*.yaml
var files embed.FS

// Case is one write of a job. The object is base.yaml with changes; a change
// names a field by its path ("spec.template.spec.replicatedJobs[0].name") and
// gives its value, null removes it.
type Case struct {
	// Group is the file that the case is in, Name says what is special.
	Group string `json:"-"`
	Name  string `json:"name"`
	// Before, where it is there, are the changes that make the object as stored;
	// the case is then an update. Changes of the status are written to the status.
	Before map[string]any `json:"before,omitempty"`
	// Set are the changes of the object that is written; an update starts from the
	// stored object.
	Set map[string]any `json:"set,omitempty"`
	// Refused are the errors wanted, all of them; empty: the write is accepted.
	Refused []Refusal `json:"refused,omitempty"`
	// Stored are fields of the object as accepted, with defaults.
	Stored map[string]any `json:"stored,omitempty"`
}

// Refusal is one error: the field that it names and a part of its message.
type Refusal struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// All is every case, in the order of the files.
func All() ([]Case, error) {
	entries, err := files.ReadDir("cases")
	if err != nil {
		return nil, err
	}
	var all []Case
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("cases", e.Name()))
		if err != nil {
			return nil, err
		}
		var cases []Case
		if err := yaml.UnmarshalStrict(text, &cases); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for i := range cases {
			cases[i].Group = strings.TrimSuffix(e.Name(), ".yaml")
		}
		all = append(all, cases...)
	}
	return all, nil
}

// Objects are the object that is stored before the write, nil for a create, and
// the one that is written.
func (c Case) Objects() (before, written *unstructured.Unstructured, err error) {
	base, err := Base()
	if err != nil {
		return nil, nil, err
	}
	if c.Before != nil {
		if err := Change(base, c.Before); err != nil {
			return nil, nil, fmt.Errorf("before: %w", err)
		}
		before = base.DeepCopy()
	}
	if err := Change(base, c.Set); err != nil {
		return nil, nil, fmt.Errorf("set: %w", err)
	}
	return before, base, nil
}

// Base is the job that the cases change: complete, and accepted as it is.
func Base() (*unstructured.Unstructured, error) {
	text, err := files.ReadFile("base.yaml")
	if err != nil {
		return nil, err
	}
	var object any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("base.yaml: %w", err)
	}
	return &unstructured.Unstructured{Object: wholeNumbers(object).(map[string]any)}, nil
}
