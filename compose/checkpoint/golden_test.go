package checkpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// tables of testdata/checkpoint; testdata/README.md describes them.
const tables = "../../testdata/checkpoint"

// named is a row of a table.
type named interface{ name() string }

// rows reads the tables whose file names match, of which each row has a name of its own.
func rows[R any, P interface {
	*R
	named
}](t *testing.T, pattern string) (all []P) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(tables, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no table %s: %v", pattern, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []P
		if err := yaml.UnmarshalStrict(text, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, row := range list {
			if name := row.name(); name == "" || seen[name] {
				t.Fatalf("%s: a row without a name of its own: %q", file, name)
			}
			seen[row.name()] = true
		}
		all = append(all, list...)
	}
	return all
}
