package v1beta1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every value that a person can meet in a status is explained in docs/api.md,
// and is a word that a condition's reason can be.
func TestEveryValueIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	asReason := regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	values := stringConstants(t, "Condition", "Reason", "Cause", "Phase", "Outcome", "Verified")
	if len(values) < 80 {
		t.Fatalf("found only %d constants", len(values))
	}
	for name, value := range values {
		if !strings.Contains(string(text), "`"+value+"`") {
			t.Errorf("docs/api.md does not explain %s (%s)", value, name)
		}
		if !asReason.MatchString(value) || len(value) > 64 {
			t.Errorf("%s = %q cannot be a reason", name, value)
		}
	}
}

// stringConstants are the package's string constants with one of the prefixes,
// by name.
func stringConstants(t *testing.T, prefixes ...string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			for _, prefix := range prefixes {
				if strings.HasPrefix(spec.Names[0].Name, prefix) {
					found[spec.Names[0].Name], _ = strconv.Unquote(literal.Value)
				}
			}
			return true
		})
	}
	return found
}
