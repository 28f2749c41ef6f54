package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kinds of change.
const (
	kindNegate   = "negate"     // a condition is negated; == becomes !=
	kindBoundary = "boundary"   // < becomes <=, Before becomes not After
	kindOperator = "operator"   // && becomes ||
	kindExtreme  = "extreme"    // min becomes max
	kindSkip     = "skip"       // the body of an if or case is never entered
	kindDrop     = "drop"       // a statement is left out
	kindZero     = "zero"       // the zero value is returned
	kindNumber   = "number"     // a constant is one more or less
	kindDuration = "duration"   // a constant is twice or half
	kindField    = "field"      // a field of a struct is left out
	kindElement  = "element"    // an element of a list is left out
	kindEntry    = "entry"      // an entry of a map is left out
	kindRule     = "rule"       // a rule of a table is left out
	kindSwap     = "swap-rules" // two neighbouring rules of a table are swapped
)

// change is one mutant.
type change struct {
	ID int `json:"id"`
	// File, Where (the function or variable), Kind, Before and After name it from
	// one version of the sources to the next; Line does not.
	File   string `json:"file"`
	Where  string `json:"where"`
	Line   int    `json:"line"`
	Kind   string `json:"kind"`
	Before string `json:"before"`
	After  string `json:"after"`

	source *source
	edits  []edit
	// reachedAs is the mutant whose code tells that this one's was reached.
	reachedAs int
}

// text is the change on one line.
func (c *change) text() string {
	if c.After == "" {
		return fmt.Sprintf("%s: %s", c.Kind, c.Before)
	}
	return fmt.Sprintf("%s: %s -> %s", c.Kind, c.Before, c.After)
}

func (c *change) diff() string { return difference(c.source.name, c.source.text, c.edits) }

// finder walks one file and instruments it.
type finder struct {
	*code
	source  *source
	imports map[string]string // by path
	where   string
	stack   []ast.Node
	holder  ast.Node // of the conditions that are changed
	changes *[]*change
	// constants of the package that were met, with their two mutants.
	constants map[types.Object][2]int
}

// find instruments the packages and returns their mutants, in the order of the
// sources.
func find(packages []*code) []*change {
	var all []*change
	for _, c := range packages {
		constants := map[types.Object][2]int{}
		for i, file := range c.files {
			f := &finder{code: c, source: c.sources[i], imports: importNames(file), changes: &all, constants: constants}
			for _, decl := range file.Decls {
				f.declaration(decl)
			}
			f.source.wrap(file.Name.End(), file.Name.End(), 0, `; import mutant "rtj.dev/rtj/test/mutation/mutant"`, "")
			f.source.wrap(file.FileEnd, file.FileEnd, 0, "var _ = mutant.On\n", "")
		}
	}
	return all
}

func importNames(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		names[path] = path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			names[path] = spec.Name.Name
		}
	}
	return names
}

func (f *finder) declaration(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Body != nil {
			f.where = d.Name.Name
			ast.Inspect(d, f.visit)
		}
	case *ast.GenDecl:
		if d.Tok != token.VAR {
			return
		}
		for _, spec := range d.Specs {
			f.where = spec.(*ast.ValueSpec).Names[0].Name
			ast.Inspect(spec, f.visit)
		}
	}
}

// visit instruments a node on the way down.
func (f *finder) visit(n ast.Node) bool {
	if n == nil {
		f.stack = f.stack[:len(f.stack)-1]
		return true
	}
	if f.leftOut(n) {
		return false
	}
	if e, ok := n.(ast.Expr); ok && f.constant(e) {
		return false
	}
	f.holder = n
	switch n := n.(type) {
	case *ast.IfStmt:
		f.condition(n.Cond)
		f.skip(n.Cond, "if")
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition(n.Cond)
		}
	case *ast.CaseClause:
		f.caseClause(n)
	case *ast.ReturnStmt:
		f.returned(n)
	case *ast.AssignStmt:
		if len(n.Lhs) == len(n.Rhs) {
			f.conditions(n.Rhs)
		}
	case *ast.ValueSpec:
		f.conditions(n.Values)
	case *ast.CallExpr:
		f.call(n)
	case *ast.CompositeLit:
		f.composite(n)
	}
	if s, ok := n.(ast.Stmt); ok {
		f.statement(s)
	}
	f.stack = append(f.stack, n)
	return true
}

// parent of the node that is visited.
func (f *finder) parent() ast.Node {
	if len(f.stack) == 0 {
		return nil
	}
	return f.stack[len(f.stack)-1]
}

// text of the file.
func (f *finder) text(from, to token.Pos) string {
	start, end := f.source.span(from, to)
	return f.source.text[start:end]
}

func (f *finder) of(n ast.Node) string { return f.text(n.Pos(), n.End()) }

// add adds a mutant that replaces a part of the file.
func (f *finder) add(kind string, from, to token.Pos, before, after string) *change {
	return f.addIn(f.source, kind, from, to, before, after, after)
}

func (f *finder) addIn(in *source, kind string, from, to token.Pos, before, after, replacement string) *change {
	start, end := in.span(from, to)
	c := &change{
		ID: len(*f.changes), File: in.name, Where: f.where, Line: f.set.Position(from).Line, Kind: kind,
		Before: short(before), After: short(after), source: in, edits: []edit{{start, end, replacement}},
	}
	c.reachedAs = c.ID
	*f.changes = append(*f.changes, c)
	return c
}

// short is a text on one line of bounded length.
func short(text string) string {
	const most = 100
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > most {
		return string([]rune(text)[:most]) + "..."
	}
	return text
}

// spell is a type as this file can write it; false when it cannot.
func (f *finder) spell(t types.Type) (string, bool) {
	known := true
	text := types.TypeString(t, func(p *types.Package) string {
		if p == f.types {
			return ""
		}
		name, ok := f.imports[p.Path()]
		known = known && ok
		return name
	})
	return text, known && !strings.HasPrefix(text, "untyped ")
}

func isBool(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && (b.Kind() == types.Bool || b.Kind() == types.UntypedBool)
}

// inWhen reports whether the node is in the function of a rule's condition: that
// it returns false is the rule left out.
func (f *finder) inWhen() bool {
	for i := len(f.stack) - 1; i > 0; i-- {
		if _, ok := f.stack[i].(*ast.FuncLit); ok {
			kv, ok := f.stack[i-1].(*ast.KeyValueExpr)
			return ok && keyName(kv) == "when"
		}
	}
	return false
}

func keyName(kv *ast.KeyValueExpr) string {
	if key, ok := kv.Key.(*ast.Ident); ok {
		return key.Name
	}
	return ""
}

// results are the types of what the function returns that is visited.
func (f *finder) results() *ast.FieldList {
	for _, n := range slices.Backward(f.stack) {
		switch n := n.(type) {
		case *ast.FuncLit:
			return n.Type.Results
		case *ast.FuncDecl:
			return n.Type.Results
		}
	}
	return nil
}
