package hooks_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/scenario"
)

var update = flag.Bool("update", false, "rewrite desired.yaml of the golden cases with what is decided now")

const (
	cases = "../testdata/sync"
	bases = cases + "/_base"
)

// TestGolden decides about every case of testdata/sync and compares with its
// desired.yaml. testdata/README.md describes the files.
func TestGolden(t *testing.T) {
	folders, err := os.ReadDir(cases)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, folder := range folders {
		name := folder.Name()
		if name == "_base" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			checkFiles(t, filepath.Join(cases, name))
			input := golden(t, filepath.Join(cases, name))
			if other, ok := seen[input]; ok {
				t.Errorf("the same as case %s; delete one", other)
			}
			seen[input] = name
		})
	}
}

// checkFiles refuses a case that lacks a file or has one that nothing reads.
func checkFiles(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		found[e.Name()] = true
	}
	required := []string{"observed.yaml", "desired.yaml"}
	if *update {
		required = required[:1]
	}
	for _, name := range required {
		if !found[name] {
			t.Fatalf("%s is missing", name)
		}
	}
	for _, name := range []string{"observed.yaml", "catalog.yaml", "desired.yaml"} {
		delete(found, name)
	}
	if len(found) > 0 {
		t.Fatalf("nothing reads %s", strings.Join(slices.Sorted(maps.Keys(found)), ", "))
	}
}

// golden compares one case and returns its input in one text.
func golden(t *testing.T, folder string) string {
	t.Helper()
	observed, err := scenario.LoadObserved(filepath.Join(folder, "observed.yaml"), bases)
	if err != nil {
		t.Fatal(err)
	}
	request, err := observed.Request()
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := scenario.LoadCatalog(filepath.Join(folder, "catalog.yaml"), bases, scenario.RunID(request))
	if err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(map[string]any{"observed": observed, "catalog": catalog})
	if err != nil {
		t.Fatal(err)
	}

	decision, response, err := scenario.Decide(observed, request, catalog)
	if err != nil {
		t.Fatal(err)
	}
	answer := response.AppendJSON(nil)
	if _, err := contract.DecodeSyncResponse(answer); err != nil {
		t.Errorf("a runner refuses the answer: %v", err)
	}
	if _, again, _ := scenario.Decide(observed, request, catalog); !bytes.Equal(answer, again.AppendJSON(nil)) {
		t.Errorf("the second answer differs:\n%s", cmp.Diff(string(answer), string(again.AppendJSON(nil))))
	}
	if after, _ := json.Marshal(map[string]any{"observed": observed, "catalog": catalog}); !bytes.Equal(input, after) {
		t.Errorf("the input was modified:\n%s", cmp.Diff(string(input), string(after)))
	}

	desired, err := scenario.Desired(*observed.Now, request, decision, response)
	if err != nil {
		t.Fatal(err)
	}
	got, err := scenario.Format(desired)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "desired.yaml")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return string(input)
	}
	if same, err := os.ReadFile(file); err == nil && bytes.Equal(same, got) {
		return string(input)
	}
	want, err := scenario.Reformat(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("decided otherwise than %s says (-want +got; -update rewrites it):\n%s", file, diff)
	}
	return string(input)
}
