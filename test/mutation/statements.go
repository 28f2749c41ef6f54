package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// statement leaves a statement of a list out.
func (f *finder) statement(s ast.Stmt) {
	switch p := f.parent().(type) {
	case *ast.BlockStmt:
	case *ast.CaseClause:
		if s.Pos() < p.Colon {
			return
		}
	default:
		return
	}
	what := f.of(s)
	switch s := s.(type) {
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			return
		}
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt:
	case *ast.RangeStmt:
		what = f.text(s.Pos(), s.Body.Lbrace)
	case *ast.ForStmt:
		if s.Cond == nil {
			return // it returns from within, so that nothing may follow
		}
		what = f.text(s.Pos(), s.Body.Lbrace)
	default:
		return
	}
	c := f.add(kindDrop, s.Pos(), s.End(), what, "")
	f.source.wrap(s.Pos(), s.End(), 1, fmt.Sprintf("if !mutant.On(%d) { ", c.ID), " }")
}

// returned returns the zero value instead.
func (f *finder) returned(n *ast.ReturnStmt) {
	f.conditions(n.Results)
	results := f.results()
	if results == nil || f.inWhen() {
		return
	}
	changes := len(n.Results) == 0
	for _, e := range n.Results {
		if id, ok := e.(*ast.Ident); ok && id.Name == "true" {
			continue // negated
		}
		changes = changes || !isZero(e)
	}
	if !changes {
		return
	}
	var zeros []string
	for _, field := range results.List {
		for range max(len(field.Names), 1) {
			zeros = append(zeros, "*new("+f.of(field.Type)+")")
		}
	}
	c := f.add(kindZero, n.Pos(), n.End(), f.of(n), "")
	c.edits[0].text = "return " + strings.Join(zeros, ", ")
	f.source.wrap(n.Pos(), n.End(), 1, fmt.Sprintf("if mutant.On(%d) { return %s }; ", c.ID, strings.Join(zeros, ", ")), "")
}
