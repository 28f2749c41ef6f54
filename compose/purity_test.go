package compose_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed are the packages that the core may import: values and pure functions.
var allowed = map[string]bool{
	"cmp": true, "errors": true, "fmt": true, "maps": true, "math": true, "regexp": true,
	"slices": true, "sort": true, "strconv": true, "strings": true,
	"crypto/sha256": true, "encoding/hex": true, "encoding/json": true,
	// The package of time.Time; that no file asks it for the present is checked below.
	"time":                              true,
	"k8s.io/apimachinery/pkg/util/json": true,
}

var allowedPrefixes = []string{
	"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/types", "k8s.io/apimachinery/pkg/api/resource",
	"sigs.k8s.io/kueue/apis/", "sigs.k8s.io/jobset/api/", "rtj.dev/rtj/api/", "rtj.dev/rtj/compose",
}

// present are the functions that read the clock, wait or print.
var present = []string{"time.Now(", "time.Since(", "time.Until(", "time.Sleep(", "time.After(", "time.Tick(", "time.NewTimer(", "time.NewTicker(", "metav1.Now(", "fmt.Print"}

// decisions are the packages that decide, and what each may import besides.
var decisions = map[string][]string{
	".": nil,
	// What one sync writes. Concurrent writes of a wave share what is remembered.
	"../metacontroller/applier/plan": {"sync", "reflect", "encoding/json", "rtj.dev/rtj/hooks/contract", "k8s.io/apimachinery/pkg/"},
	// What an answer waits for; of the catalog it has the types.
	"../hooks/edge": {"rtj.dev/rtj/hooks/catalog"},
}

func TestTheCoreIsPure(t *testing.T) {
	for folder, more := range decisions {
		t.Run(filepath.Base(folder), func(t *testing.T) { checkFolder(t, folder, more) })
	}
}

func checkFolder(t *testing.T, folder string, more []string) {
	files := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		checkImports(t, path, more)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no file was checked")
	}
}

func checkImports(t *testing.T, path string, more []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !importAllowed(name, more) {
			t.Errorf("%s imports %s: the core has no I/O, clock, randomness, logging or client", path, name)
		}
	}
	for _, call := range present {
		if source := read(t, path); strings.Contains(source, call) {
			t.Errorf("%s calls %s: the present is handed in, and what decides is silent", path, call)
		}
	}
}

func importAllowed(name string, more []string) bool {
	if allowed[name] {
		return true
	}
	for _, prefix := range slices.Concat(allowedPrefixes, more) {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func read(t *testing.T, path string) string {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}
