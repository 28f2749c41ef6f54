// Package manifest reads the YAML manifests of Kueue, JobSet and RTJ and
// changes them for a cluster whose webhooks are processes on loopback and
// whose components authenticate with certificates.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Read returns the objects of a YAML file, or of all *.yaml files of a folder
// in order of name, kustomization.yaml excepted.
func Read(path string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return nil, err
		}
		sort.Strings(paths)
	}
	var all []*unstructured.Unstructured
	for _, p := range paths {
		if filepath.Base(p) == "kustomization.yaml" {
			continue
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		objects, err := Parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// Parse splits a stream of YAML documents.
func Parse(data []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		object := map[string]any{}
		if err := sigsyaml.Unmarshal(doc, &object); err != nil {
			return nil, err
		}
		if len(object) == 0 {
			continue
		}
		u := &unstructured.Unstructured{Object: object}
		if u.GetKind() == "" || u.GetAPIVersion() == "" {
			return nil, errors.New("a document without kind or apiVersion")
		}
		all = append(all, u)
	}
}
