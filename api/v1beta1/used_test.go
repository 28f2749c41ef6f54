package v1beta1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A reason, condition or cause that nothing sets would be a promise that the
// documentation makes for nobody.
func TestEveryValueIsUsed(t *testing.T) {
	used := namesUsed(t, "../../compose", "../../hooks")
	values := stringConstants(t, "Condition", "Reason", "Cause")
	if len(values) < 60 || len(used) < 1000 {
		t.Fatalf("found only %d constants and %d names", len(values), len(used))
	}
	for name := range values {
		if !used[name] {
			t.Errorf("%s is used by no code outside api/", name)
		}
	}
}

// namesUsed are the identifiers that the programs below the folders use, tests
// left out. To declare a name is not to use it: the reasons of checkpoints are
// declared a second time in compose/checkpoint, which does not know the API.
func namesUsed(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			declared := map[*ast.Ident]bool{}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					for _, name := range n.Names {
						declared[name] = true
					}
				case *ast.Ident:
					if !declared[n] {
						used[n.Name] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return used
}
