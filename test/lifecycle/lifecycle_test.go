package lifecycle

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the scripts with what is decided now")

// TestScripts runs every script of testdata/lifecycle. testdata/README.md
// describes the language.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("../../testdata/lifecycle/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(scripts) == 0 {
		t.Fatal("there are no scripts")
	}
	for _, file := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Run(want)
			if err != nil {
				t.Fatalf("%s%v", got, err)
			}
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("decided otherwise than the script says (-want +got; -rewrite rewrites it):\n%s", diff)
			}
		})
	}
}
