package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

func (f *finder) conditions(list []ast.Expr) {
	for _, e := range list {
		f.condition(e)
	}
}

// condition changes a boolean expression: its operators, and each operand.
func (f *finder) condition(e ast.Expr) {
	t, ok := f.info.Types[e]
	if !ok || !isBool(t.Type) || f.leftOut(e) {
		return
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		f.condition(e.X)
		return
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			f.condition(e.X)
			f.condition(e.Y)
			f.operator(e)
		default:
			f.comparison(e)
		}
		return
	case *ast.UnaryExpr:
		if call, ok := e.X.(*ast.CallExpr); ok {
			f.moment(call)
		} else if group, ok := e.X.(*ast.ParenExpr); ok {
			f.condition(group)
			return
		}
		f.xor(e, f.add(kindNegate, e.Pos(), e.End(), f.of(e), f.of(e.X)).ID)
		return
	case *ast.Ident:
		if t.Value != nil && (e.Name == "true" || e.Name == "false") {
			other := map[string]string{"true": "false", "false": "true"}[e.Name]
			f.xor(e, f.add(kindNegate, e.Pos(), e.End(), f.around(e), other).ID)
			return
		}
	case *ast.CallExpr:
		f.moment(e)
	}
	if t.Value == nil {
		f.xor(e, f.add(kindNegate, e.Pos(), e.End(), f.of(e), "!"+f.of(e)).ID)
	}
}

// around is a literal with what it is the value of.
func (f *finder) around(e ast.Expr) string {
	switch p := f.holder.(type) {
	case *ast.KeyValueExpr, *ast.CallExpr, *ast.ReturnStmt, *ast.AssignStmt:
		return f.of(p)
	}
	return f.of(e)
}

// xor turns a boolean expression round when the mutant is on.
func (f *finder) xor(e ast.Expr, id int) {
	f.source.wrap(e.Pos(), e.End(), 0, "((", fmt.Sprintf(") != mutant.On(%d))", id))
}

// operator: !(!a && !b) is a || b, and b is evaluated only where it would be.
func (f *finder) operator(e *ast.BinaryExpr) {
	other := map[token.Token]string{token.LAND: "||", token.LOR: "&&"}[e.Op]
	x, y := f.of(e.X), f.of(e.Y)
	if inner, ok := e.X.(*ast.BinaryExpr); ok && inner.Op == token.LAND && e.Op == token.LAND {
		x = "(" + x + ")"
	}
	id := f.add(kindOperator, e.Pos(), e.End(), f.of(e), x+" "+other+" "+y).ID
	f.xor(e.X, id)
	f.xor(e.Y, id)
	f.xor(e, id)
}

func (f *finder) comparison(e *ast.BinaryExpr) {
	end := e.OpPos + token.Pos(len(e.Op.String()))
	with := func(op string) string { return f.text(e.Pos(), e.OpPos) + op + f.text(end, e.End()) }
	one := func(kind, op string) *change {
		c := f.add(kind, e.OpPos, end, f.of(e), with(op))
		c.edits[0].text = op
		return c
	}
	opposite := map[token.Token]string{token.EQL: "!=", token.NEQ: "==", token.LSS: ">=", token.GEQ: "<", token.GTR: "<=", token.LEQ: ">"}[e.Op]
	switch e.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if t, ok := f.spell(f.operandType(e)); ok {
			near := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}[e.Op]
			id := one(kindBoundary, near).ID
			// a > b is !(a <= b), and a >= b is !(a < b).
			call := map[token.Token]string{token.LSS: "mutant.Less", token.LEQ: "mutant.LessOrEqual", token.GTR: "!mutant.LessOrEqual", token.GEQ: "!mutant.Less"}[e.Op]
			f.source.wrap(e.Pos(), e.End(), 0, fmt.Sprintf("%s[%s](%d, ", call, t, id), ")")
			f.source.cut(e.OpPos, end, ",")
		}
	}
	f.xor(e, one(kindNegate, opposite).ID)
}

// operandType is the type in which the two sides are compared.
func (f *finder) operandType(e *ast.BinaryExpr) types.Type {
	if x := f.info.Types[e.X]; x.Value == nil {
		return x.Type
	}
	return f.info.Types[e.Y].Type
}

// moment changes a.Before(b) to !a.After(b), and a.After(b) to !a.Before(b).
func (f *finder) moment(e *ast.CallExpr) {
	selector, ok := e.Fun.(*ast.SelectorExpr)
	if !ok || len(e.Args) != 1 {
		return
	}
	method, ok := f.info.Selections[selector]
	if !ok || method.Obj().Pkg() == nil || method.Obj().Pkg().Path() != "time" || f.info.Types[e.Args[0]].Type.String() != "time.Time" {
		return
	}
	other := map[string]string{"Before": "After", "After": "Before"}[selector.Sel.Name]
	if other == "" {
		return
	}
	x, y := f.of(selector.X), f.of(e.Args[0])
	id := f.add(kindBoundary, e.Pos(), e.End(), f.of(e), fmt.Sprintf("!%s.%s(%s)", x, other, y)).ID
	// The receiver may be a struct that embeds the time.
	embedded := ""
	if f.info.Types[selector.X].Type.String() != "time.Time" {
		embedded = ".Time"
	}
	before := fmt.Sprintf("mutant.Before(%d, ", id)
	if other == "Before" {
		// a after b is b before a.
		before = fmt.Sprintf("mutant.After(%d, ", id)
	}
	f.source.wrap(e.Pos(), e.End(), 0, before, "")
	f.source.cut(selector.X.End(), e.Lparen+1, embedded+", ")
}

// skip keeps the body of a condition from being entered.
func (f *finder) skip(cond ast.Expr, what string) {
	if f.leftOut(cond) {
		return
	}
	c := f.add(kindSkip, cond.Pos(), cond.End(), what+" "+f.of(cond), "")
	c.edits[0].text = "false"
	f.source.wrap(cond.Pos(), cond.End(), 0, "(", fmt.Sprintf(") && !mutant.On(%d)", c.ID))
}

func (f *finder) caseClause(n *ast.CaseClause) {
	block, ok := f.parent().(*ast.BlockStmt)
	if !ok || len(f.stack) < 2 {
		return
	}
	of, ok := f.stack[len(f.stack)-2].(*ast.SwitchStmt)
	if !ok || of.Body != block || of.Tag != nil {
		return
	}
	for _, e := range n.List {
		f.condition(e)
		f.skip(e, "case")
	}
}
