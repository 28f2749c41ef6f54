package main

import (
	"bytes"
	"fmt"
	"io"

	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
)

const deepcopyFile = "zz_generated.deepcopy.go"

// api is what controller-tools makes of the Go types.
type api struct {
	deepcopy    []byte
	definitions map[string][]byte // by file name
}

func readAPI(pkg string) (api, error) {
	// A JobSet rule refers to metadata of embedded objects, and does not compile
	// without it.
	embeddedMeta := true
	var definitions genall.Generator = crd.Generator{GenerateEmbeddedObjectMeta: &embeddedMeta}
	var copies genall.Generator = deepcopy.Generator{}
	runtime, err := genall.Generators{&definitions, &copies}.ForRoots(pkg)
	if err != nil {
		return api{}, err
	}
	files := memory{}
	runtime.OutputRules = genall.OutputRules{Default: files}
	if failed := runtime.Run(); failed {
		return api{}, fmt.Errorf("controller-tools refused %s", pkg)
	}
	out := api{definitions: map[string][]byte{}}
	for name, content := range files {
		if name == deepcopyFile {
			out.deepcopy = content.Bytes()
			continue
		}
		out.definitions[name] = content.Bytes()
	}
	return out, nil
}

// memory keeps what generators write, by file name.
type memory map[string]*bytes.Buffer

func (m memory) Open(_ *loader.Package, name string) (io.WriteCloser, error) {
	m[name] = &bytes.Buffer{}
	return closer{m[name]}, nil
}

type closer struct{ io.Writer }

func (closer) Close() error { return nil }
