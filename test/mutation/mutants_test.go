package main

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/test/mutation/mutant"
)

// mutantsOf are the mutants of a file.
func mutantsOf(t *testing.T, text string) (*code, []*change) {
	t.Helper()
	c := &code{set: token.NewFileSet(), info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	if err := c.parse("sample.go", text); err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: importer.ForCompiler(c.set, "source", nil)}
	var err error
	if c.types, err = config.Check("sample", c.set, c.files, c.info); err != nil {
		t.Fatal(err)
	}
	return c, find([]*code{c})
}

func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"operands and operators of a condition": {
			"func f(a, b bool, n int) bool { return a && !b || n < m }\nvar m int",
			[]string{"negate: a -> !a", "negate: !b -> b", "operator: a && !b -> a || !b", "boundary: n < m -> n <= m", "negate: n < m -> n >= m",
				"operator: a && !b || n < m -> a && !b && n < m", "zero: return a && !b || n < m"},
		},
		"if, its statements and a constant": {
			"func f(n int) int { if n == most { n = 7; n++ }; return n }\nconst most = 5",
			[]string{"negate: n == most -> n != most", "skip: if n == most", "number: most = 5 -> 5+1", "number: most = 5 -> 5-1",
				"drop: n = 7", "number: 7 -> 7+1", "number: 7 -> 7-1", "drop: n++", "zero: return n"},
		},
		"moments and durations": {
			"import \"time\"\nfunc f(t time.Time) bool { return t.Before(t.Add(3*time.Second)) }",
			[]string{"boundary: t.Before(t.Add(3*time.Second)) -> !t.After(t.Add(3*time.Second))", "negate: t.Before(t.Add(3*time.Second)) -> !t.Before(t.Add(3*time.Second))",
				"zero: return t.Before(t.Add(3*time.Second))", "duration: 3*time.Second -> (3*time.Second)*2", "duration: 3*time.Second -> (3*time.Second)/2"},
		},
		"a table of rules": {
			`type rule[T any] struct { name string; when func(int) bool; then T; why func(int) string }
			var table = []rule[string]{{name: "A", when: a, then: "x"}, {name: "B", when: func(n int) bool { return n > k }, then: "y", why: func(n int) string { if n > 0 { return "a" }; return "b" }}}
			func a(int) bool { return true }
			var k int`,
			[]string{`rule: rule "A"`, `rule: rule "B"`, `swap-rules: "A", "B" -> "B", "A"`, "boundary: n > k -> n >= k", "negate: n > k -> n <= k", "negate: return true -> false"},
		},
		"literals": {
			`type s struct { A string; B []int; message string }
			var v = s{A: "a", B: []int{x, y}, message: "for people"}
			var m = map[string]int{"one": x}
			var x, y int`,
			[]string{`field: A: "a"`, "field: B: []int{x, y}", "element: x", "element: y", `entry: "one": x`},
		},
		"what is left out": {
			`import "fmt"
			func f(n int) { message := ""; message = "a"; g(fmt.Sprint(n+1), make([]int, 0, 5)); _ = message }
			func g(string, []int) {}`,
			[]string{"drop: g(fmt.Sprint(n+1), make([]int, 0, 5))", "drop: _ = message"},
		},
		"loops and calls": {
			"func f(list []int) int { for _, n := range list { if n > k { continue }; k = max(k, n) }; return *new(int) }\nvar k int",
			[]string{"drop: for _, n := range list", "boundary: n > k -> n >= k", "negate: n > k -> n <= k", "skip: if n > k", "drop: continue",
				"drop: k = max(k, n)", "extreme: max(k, n) -> min(k, n)", "zero: return *new(int)"},
		},
		"constants that iota numbers": {
			"func f(n int) int { return g(n, two) }\nfunc g(n, m int) int { return n }\nconst (\n\tone = iota\n\ttwo\n)",
			[]string{"zero: return g(n, two)", "zero: return n"},
		},
		"cases": {
			"func f(n int) string { switch { case n == k: return word; default: return \"\" } }\nvar k int\nvar word string",
			[]string{"negate: n == k -> n != k", "skip: case n == k", "zero: return word"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, changes := mutantsOf(t, "package sample\n"+test.text)
			var got []string
			for _, c := range changes {
				got = append(got, c.text())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	_, changes := mutantsOf(t, "package sample\n\nfunc f(n int) int {\n\tn++\n\treturn n\n}\n")
	want := "--- sample.go\n+++ sample.go\n@@ -1,6 +1,6 @@\n package sample\n \n func f(n int) int {\n-\tn++\n+\t\n \treturn n\n }\n \n"
	want = strings.Replace(want, "@@ -1,6 +1,6 @@", "@@ -1,7 +1,7 @@", 1)
	if diff := cmp.Diff(want, changes[0].diff()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A report is read back, and what was killed then counts as it was.
func TestAnEarlierReportIsCarriedOver(t *testing.T) {
	_, changes := mutantsOf(t, "package sample\nfunc f(n int) int { n++; return n }")
	file := filepath.Join(t.TempDir(), "report.json")
	killed := &result{change: changes[0], By: "golden", Test: "TestGolden/a", Reached: true}
	if err := newReport([]*result{killed, {change: changes[1]}}, nil, true).writeJSON(file); err != nil {
		t.Fatal(err)
	}
	before, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := choose(changes, &options{mutant: -1}, before)
	if err != nil || len(again) != 1 || again[0] != changes[1] {
		t.Fatal(again, err)
	}
	all := carried(changes, []*result{{change: changes[1], By: "world"}}, before)
	if len(all) != 2 || all[0].Test != "TestGolden/a" || all[1].By != "world" {
		t.Error(all)
	}
}

// sample prints one line; which one depends on the mutant.
const sample = `package main

import (
	"fmt"
	"time"
)

type rule[T any] struct {
	name string
	when func(int) bool
	then T
}

var table = []rule[string]{
	{name: "Positive", when: func(n int) bool { return n > 0 }, then: "positive"},
	{name: "Any", when: func(int) bool { return true }, then: "any"},
}

type point struct{ X, Y int }

const limit = 3 * time.Second

func decide(n int) string {
	for _, r := range table {
		if r.when(n) {
			return r.then
		}
	}
	return "none"
}

func list() []string { return []string{"a", "b"} }

func late(d time.Duration) bool {
	start := time.Unix(0, 0)
	return !start.Add(d).Before(start.Add(limit))
}

func main() {
	p := point{X: 1, Y: one()}
	var absent *point
	show(decide(5), decide(0), list(), late(3*time.Second), p, absent == nil || absent.X > 0, max(2, one()))
}

func show(values ...any) { fmt.Println(values...) }

func one() int { return 1 }
`

// TestTheSwitchMakesTheChange: the instrumented program with a mutant on does
// what the changed source says.
func TestTheSwitchMakesTheChange(t *testing.T) {
	c, changes := mutantsOf(t, sample)
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "main.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "sampleprogram", "main.go"): copied}})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"main.go": c.sources[0].instrumented(), "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "sample")
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./sampleprogram").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(id int) string {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), mutant.Variable+"="+strconv.Itoa(id))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "panic"
		}
		return strings.TrimSpace(string(out))
	}
	const unchanged = "positive any [a b] true {1 1} true 2"
	if got := run(-1); got != unchanged {
		t.Fatalf("without a mutant it prints %q", got)
	}
	for change, want := range map[string]string{
		`rule: rule "Positive"`: "any any [a b] true {1 1} true 2",
		`rule: rule "Any"`:      "positive none [a b] true {1 1} true 2",
		`swap-rules: "Positive", "Any" -> "Any", "Positive"`:       "any any [a b] true {1 1} true 2",
		"boundary: n > 0 -> n >= 0":                                "positive positive [a b] true {1 1} true 2",
		"negate: n > 0 -> n <= 0":                                  "any positive [a b] true {1 1} true 2",
		"skip: if r.when(n)":                                       "none none [a b] true {1 1} true 2",
		"drop: for _, r := range table":                            "none none [a b] true {1 1} true 2",
		`element: "a"`:                                             "positive any [b] true {1 1} true 2",
		`element: "b"`:                                             "positive any [a] true {1 1} true 2",
		"duration: limit = 3 * time.Second -> (3 * time.Second)*2": "positive any [a b] false {1 1} true 2",
		"duration: limit = 3 * time.Second -> (3 * time.Second)/2": unchanged,
		"boundary: start.Add(d).Before(start.Add(limit)) -> !start.Add(d).After(start.Add(limit))": "positive any [a b] false {1 1} true 2",
		"field: Y: one()":                                                          "positive any [a b] true {1 0} true 2",
		"extreme: max(2, one()) -> min(2, one())":                                  "positive any [a b] true {1 1} true 1",
		"negate: absent == nil -> absent != nil":                                   "panic",
		"operator: absent == nil || absent.X > 0 -> absent == nil && absent.X > 0": "panic",
		"number: 5 -> 5-1":                                                         unchanged,
	} {
		found := false
		for _, c := range changes {
			if c.text() == change {
				found = true
				if got := run(c.ID); got != want {
					t.Errorf("%s prints %q, want %q", change, got, want)
				}
			}
		}
		if !found {
			t.Errorf("no mutant is %s", change)
		}
	}
}

// TestJudgedSurvivorsExist: a row of docs/mutation.md names a mutant that there is.
func TestJudgedSurvivorsExist(t *testing.T) {
	t.Chdir("../..")
	packages, err := load(t.Context(), folders...)
	if err != nil {
		t.Fatal(err)
	}
	exists := map[judgement]bool{}
	for _, c := range find(packages) {
		exists[c.judgement()] = true
	}
	judged, err := readJudged("docs/mutation.md")
	if err != nil {
		t.Fatal(err)
	}
	for j := range judged {
		if !exists[j] {
			t.Errorf("docs/mutation.md judges what is no mutant: %s %s %s", j.file, j.where, j.change)
		}
	}
}
