// Command generate writes what is derived from the Go types of the API: the
// deepcopy functions beside them and the CustomResourceDefinition in api/crd.
//
//	go -C test/tools run ./generate          write the files
//	go -C test/tools run ./generate -check   exit 1 if a file is not up to date
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const (
	typesDir    = "api/v1beta1"
	overlayFile = "api/v1beta1/schema_overlay.yaml"
	crdDir      = "api/crd"
)

func main() {
	root := flag.String("root", "../..", "root of the product's module")
	check := flag.Bool("check", false, "write nothing; exit 1 if a file is not up to date")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	// The loader resolves packages from the working directory's module.
	if err := os.Chdir(root); err != nil {
		return err
	}
	files, err := generated()
	if err != nil {
		return err
	}
	if check {
		return upToDate(files)
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generated is every generated file's content by its path below the root.
func generated() (map[string][]byte, error) {
	raw, err := readAPI("./" + typesDir)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(overlayFile)
	if err != nil {
		return nil, err
	}
	overlay, err := parseOverlay(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", overlayFile, err)
	}
	files := map[string][]byte{filepath.Join(typesDir, deepcopyFile): raw.deepcopy}
	for name, definition := range raw.definitions {
		content, err := finishDefinition(definition, overlay)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[filepath.Join(crdDir, name)] = content
	}
	return files, nil
}

// upToDate compares with what is on disk, and finds definitions of kinds that
// no longer exist.
func upToDate(files map[string][]byte) error {
	var stale []error
	for path, want := range files {
		got, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stale = append(stale, fmt.Errorf("%s is missing", path))
		case err != nil:
			return err
		case !bytes.Equal(got, want):
			stale = append(stale, fmt.Errorf("%s is not up to date, first in line %d", path, firstDifference(got, want)))
		}
	}
	onDisk, err := filepath.Glob(filepath.Join(crdDir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range onDisk {
		if _, ok := files[path]; !ok {
			stale = append(stale, fmt.Errorf("%s is generated from no type", path))
		}
	}
	if len(stale) == 0 {
		return nil
	}
	slices.SortFunc(stale, func(a, b error) int { return bytes.Compare([]byte(a.Error()), []byte(b.Error())) })
	return errors.Join(append(stale, errors.New("run make generate"))...)
}

func firstDifference(a, b []byte) int {
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(x), len(y)) {
		if !bytes.Equal(x[i], y[i]) {
			return i + 1
		}
	}
	return min(len(x), len(y)) + 1
}
