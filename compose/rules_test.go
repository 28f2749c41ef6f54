package compose_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rtj.dev/rtj/compose"
)

// table is a rule table as its source has it.
type table struct {
	file  string
	rules []string
}

// TestEveryRuleHasAGoldenCase reads the rule tables from the source and the rules
// that matched from testdata/sync.
func TestEveryRuleHasAGoldenCase(t *testing.T) {
	tables := ruleTables(t)
	matched := goldenMatches(t)
	for name, table := range tables {
		for _, rule := range table.rules {
			if !matched[name+" "+rule] {
				t.Errorf("no case of testdata/sync is decided by rule %s of table %s (%s)", rule, name, table.file)
			}
			delete(matched, name+" "+rule)
		}
	}
	for rule := range matched {
		// What a table decides beside its rules has the table's name too.
		if rule != "release LeftoverWorkload" {
			t.Errorf("a golden case names rule %q, which is in no table", rule)
		}
	}
}

// TestConceptsNameEveryTable: docs/concepts.md says in which file each table is,
// so that the rule which decided a case is found at once.
func TestConceptsNameEveryTable(t *testing.T) {
	text, err := os.ReadFile("../docs/concepts.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range ruleTables(t) {
		if row := fmt.Sprintf("| `%s` | `compose/%s` |", name, table.file); !strings.Contains(string(text), row) {
			t.Errorf("docs/concepts.md has no row %s", row)
		}
	}
}

// TestTablesAreAll: Tables has every table and rule that the source has.
func TestTablesAreAll(t *testing.T) {
	inSource := ruleTables(t)
	for name, rules := range compose.Tables() {
		if !slices.Equal(rules, inSource[name].rules) {
			t.Errorf("table %s:\n%v\n%v", name, rules, inSource[name].rules)
		}
		delete(inSource, name)
	}
	for name := range inSource {
		t.Errorf("Tables has no table %s", name)
	}
}

// ruleTables are the tables by the name that their matches have.
func ruleTables(t *testing.T) map[string]table {
	t.Helper()
	files := map[string]*ast.File{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	// The variables that hold a table, and the calls that evaluate one.
	literals, calls := map[string]table{}, map[string]ast.Expr{}
	for name, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if len(n.Values) == 1 {
					literals[n.Names[0].Name] = table{name, ruleNames(n.Values[0])}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "first" && len(n.Args) == 3 {
					if text, ok := n.Args[1].(*ast.BasicLit); ok {
						calls[unquote(text)] = n.Args[2]
					}
				}
			}
			return true
		})
	}
	tables := map[string]table{}
	for name, of := range calls {
		variable, ok := of.(*ast.Ident)
		if !ok || len(literals[variable.Name].rules) == 0 {
			t.Fatalf("table %s is not a variable with rules", name)
		}
		tables[name] = literals[variable.Name]
	}
	if len(tables) < 10 {
		t.Fatalf("only %d tables", len(tables))
	}
	return tables
}

// ruleNames are the values of the fields called name, in order.
func ruleNames(e ast.Expr) (names []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if field, ok := n.(*ast.KeyValueExpr); ok {
			key, _ := field.Key.(*ast.Ident)
			text, _ := field.Value.(*ast.BasicLit)
			if key != nil && key.Name == "name" && text != nil {
				names = append(names, unquote(text))
			}
		}
		return true
	})
	return names
}

func unquote(text *ast.BasicLit) string {
	s, err := strconv.Unquote(text.Value)
	if err != nil {
		return text.Value
	}
	return s
}

var goldenMatch = regexp.MustCompile(`\{table: ([a-z-]+), rule: (\w+)`)

// goldenMatches are the rules that matched in some golden case, as "table rule".
func goldenMatches(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../testdata/sync/*/desired.yaml")
	if err != nil {
		t.Fatal(err)
	}
	matched := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range goldenMatch.FindAllStringSubmatch(string(text), -1) {
			matched[m[1]+" "+m[2]] = true
		}
	}
	return matched
}
