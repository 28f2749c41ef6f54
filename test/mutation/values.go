package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// constant changes a whole constant expression, and reports whether it was one.
func (f *finder) constant(e ast.Expr) bool {
	t, ok := f.info.Types[e]
	if !ok || t.Value == nil {
		return false
	}
	if isBool(t.Type) {
		return true
	}
	if kind := t.Value.Kind(); kind != constant.Int && kind != constant.Float || f.fixed(e) {
		return true
	}
	spelled, ok := f.spell(t.Type)
	if !ok || f.enumerated(e) {
		return true
	}
	more, less := f.constantMutants(e, spelled == "time.Duration")
	if spelled == "time.Duration" {
		f.source.wrap(e.Pos(), e.End(), 0, fmt.Sprintf("mutant.Duration(%d, %d, ", more, less), ")")
	} else {
		f.source.wrap(e.Pos(), e.End(), 0, fmt.Sprintf("mutant.Number[%s](%d, %d, ", spelled, more, less), ")")
	}
	return true
}

// fixed: where the language wants a constant.
func (f *finder) fixed(e ast.Expr) bool {
	switch p := f.parent().(type) {
	case *ast.ArrayType:
		return true
	case *ast.KeyValueExpr:
		return p.Key == e
	case *ast.CaseClause:
		return slices.Contains(p.List, e)
	}
	return false
}

// enumerated reports whether the expression is a constant that iota numbers: it is a
// name, and no number.
func (f *finder) enumerated(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	if !ok || f.info.Uses[name] == nil {
		return false
	}
	_, value := f.declared(f.info.Uses[name])
	if value, ok := value.(*ast.Ident); ok {
		return value.Name == "iota"
	}
	return value == nil
}

// constantMutants of an expression; those of a declared constant are the same
// two at every use.
func (f *finder) constantMutants(e ast.Expr, duration bool) (more, less int) {
	in, value := f.source, e
	var object types.Object
	if name, ok := e.(*ast.Ident); ok {
		if object = f.info.Uses[name]; object != nil {
			if known, ok := f.constants[object]; ok {
				return known[0], known[1]
			}
			in, value = f.declared(object)
		}
	}
	text := in.text[int(value.Pos())-in.base : int(value.End())-in.base]
	before := text
	if object != nil {
		before = object.Name() + " = " + text
	}
	wrapped := text
	if _, simple := value.(*ast.BasicLit); !simple {
		wrapped = "(" + text + ")"
	}
	one := func(kind, how string) int {
		c := f.addIn(in, kind, value.Pos(), value.End(), before, wrapped+how, wrapped+how)
		if object != nil {
			c.Where = object.Name()
		}
		return c.ID
	}
	if duration {
		more, less = one(kindDuration, "*2"), one(kindDuration, "/2")
	} else {
		more, less = one(kindNumber, "+1"), one(kindNumber, "-1")
	}
	if object != nil {
		f.constants[object] = [2]int{more, less}
	}
	return more, less
}

// declared is where a constant of the package has its value.
func (f *finder) declared(object types.Object) (in *source, value ast.Expr) {
	for i, file := range f.files {
		if object.Pos() < file.FileStart || object.Pos() > file.FileEnd {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for j, name := range spec.Names {
					if f.info.Defs[name] == object && j < len(spec.Values) {
						in, value = f.sources[i], spec.Values[j]
					}
				}
			}
			return true
		})
	}
	return in, value
}

func (f *finder) call(n *ast.CallExpr) {
	if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "min" || name.Name == "max") {
		if t, ok := f.spell(f.info.Types[n].Type); ok && f.info.Types[n].Value == nil {
			other := map[string]string{"min": "max", "max": "min"}[name.Name]
			c := f.add(kindExtreme, n.Fun.Pos(), n.Fun.End(), f.of(n), other+f.text(n.Fun.End(), n.End()))
			c.edits[0].text = other
			f.source.cut(n.Fun.Pos(), n.Lparen+1, fmt.Sprintf("mutant.%s[%s](%d, ", strings.ToUpper(name.Name[:1])+name.Name[1:], t, c.ID))
		}
	}
	f.conditions(n.Args)
}

func (f *finder) composite(n *ast.CompositeLit) {
	t := f.info.Types[n].Type
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem() // of an element of a list of pointers
	}
	switch t.Underlying().(type) {
	case *types.Struct:
		f.structure(n)
	case *types.Slice:
		if isTable(t) {
			f.table(n)
		} else if n.Type != nil {
			for i, e := range n.Elts {
				f.dropElement(n, i, e)
			}
		}
		f.conditions(n.Elts)
	case *types.Map:
		for _, e := range n.Elts {
			kv := e.(*ast.KeyValueExpr)
			f.holder = kv
			f.condition(kv.Value)
			if n.Type != nil && !isBool(f.info.Types[kv.Value].Type) && f.info.Types[kv.Key].Value != nil {
				c := f.add(kindEntry, kv.Pos(), kv.End(), f.of(kv), "")
				f.source.wrap(n.Pos(), n.End(), 0, fmt.Sprintf("mutant.Without(%d, ", c.ID), ", "+f.of(kv.Key)+")")
				f.comma(c, kv)
			}
		}
	}
}

func (f *finder) dropElement(list *ast.CompositeLit, i int, e ast.Expr) {
	if _, keyed := e.(*ast.KeyValueExpr); keyed {
		return
	}
	c := f.add(kindElement, e.Pos(), e.End(), f.of(e), "")
	f.comma(c, e)
	f.source.wrap(list.Pos(), list.End(), 0, fmt.Sprintf("mutant.Drop(%d, %d, ", c.ID, i), ")")
}

// comma extends what is left out by the comma behind it.
func (f *finder) comma(c *change, n ast.Node) {
	end := &c.edits[0].end
	if *end < len(f.source.text) && f.source.text[*end] == ',' {
		*end++
	}
}

func (f *finder) structure(n *ast.CompositeLit) {
	for _, e := range n.Elts {
		kv, keyed := e.(*ast.KeyValueExpr)
		if !keyed {
			f.condition(e)
			continue
		}
		if f.leftOut(kv) {
			continue
		}
		f.holder = kv
		f.condition(kv.Value)
		t := f.info.Types[kv.Value]
		if isBool(t.Type) || f.isRule(n) || isZero(kv.Value) {
			continue
		}
		if _, ok := kv.Value.(*ast.FuncLit); ok {
			continue
		}
		if inner, ok := kv.Value.(*ast.CompositeLit); ok && inner.Type == nil {
			continue
		}
		call := "mutant.Zero"
		if t.Value != nil {
			spelled, ok := f.spell(t.Type)
			if !ok || t.Value.Kind() != constant.String {
				continue // numbers are changed as constants
			}
			call += "[" + spelled + "]"
		}
		c := f.add(kindField, kv.Pos(), kv.End(), f.of(kv), "")
		f.comma(c, kv)
		f.source.wrap(kv.Value.Pos(), kv.Value.End(), 0, fmt.Sprintf("%s(%d, ", call, c.ID), ")")
	}
}

// isZero reports whether an expression is written as a zero value.
func isZero(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "false"
	case *ast.BasicLit:
		return e.Value == "0" || e.Value == `""`
	case *ast.CompositeLit:
		return len(e.Elts) == 0
	}
	return false
}

func isTable(t types.Type) bool {
	list, ok := t.Underlying().(*types.Slice)
	if !ok {
		return false
	}
	element, ok := list.Elem().(*types.Named)
	return ok && element.Obj().Name() == "rule"
}

func (f *finder) isRule(n *ast.CompositeLit) bool {
	element, ok := f.info.Types[n].Type.(*types.Named)
	return ok && element.Obj().Name() == "rule"
}

// table leaves each rule out, and swaps each with the next.
func (f *finder) table(n *ast.CompositeLit) {
	previous, previousName := -1, ""
	for i, e := range n.Elts {
		rule, ok := e.(*ast.CompositeLit)
		if !ok {
			continue
		}
		name := ""
		var when ast.Expr
		for _, field := range rule.Elts {
			kv := field.(*ast.KeyValueExpr)
			switch keyName(kv) {
			case "name":
				name = f.of(kv.Value)
			case "when":
				when = kv.Value
			}
		}
		c := f.add(kindRule, rule.Pos(), rule.End(), "rule "+name, "")
		f.comma(c, rule)
		f.source.wrap(when.Pos(), when.End(), 0, fmt.Sprintf("mutant.Never(%d, ", c.ID), ")")
		if previous >= 0 {
			before := n.Elts[i-1]
			s := f.add(kindSwap, before.Pos(), rule.End(), previousName+", "+name, name+", "+previousName)
			s.edits[0].text = f.of(rule) + f.text(before.End(), rule.Pos()) + f.of(before)
			s.reachedAs = previous
			f.source.wrap(n.Pos(), n.End(), 0, fmt.Sprintf("mutant.Swap(%d, %d, ", s.ID, i-1), ")")
		}
		previous, previousName = c.ID, name
	}
}

// leftOut are the parts that only words for people depend on, and where nothing
// can be changed.
func (f *finder) leftOut(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		switch keyName(n) {
		case "why", "message", "Message", "name":
			return true
		}
	case *ast.CallExpr:
		return f.isText(n)
	case *ast.GenDecl:
		return n.Tok != token.VAR
	case *ast.AssignStmt:
		return !slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool { return !isMessage(e) })
	}
	return false
}

// isText: calls that make words, or convert them.
func (f *finder) isText(n *ast.CallExpr) bool {
	switch fun := n.Fun.(type) {
	case *ast.Ident:
		return fun.Name == "make" || fun.Name == "panic"
	case *ast.SelectorExpr:
		if p, ok := fun.X.(*ast.Ident); ok {
			if of, ok := f.info.Uses[p].(*types.PkgName); ok {
				switch of.Imported().Path() {
				case "fmt", "errors", "strconv":
					return true
				}
			}
		}
		return fun.Sel.Name == "WriteString"
	}
	return false
}

func isMessage(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return name == "message" || name == "Message"
}
