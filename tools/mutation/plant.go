package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
)

// mutant is one change of one operator.
type mutant struct {
	id    int
	key   string // function, expression and new operator: what identifies it when lines move
	at    string // file and line, for people
	file  int
	node  ast.Node
	kind  string // its type, in the syntax of its file; empty for a statement
	whole string // the text of the node with the change
}

// swaps are the changes of binary operators and of assignments.
var swaps = map[token.Token][]token.Token{
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
}

// plant finds the mutants of the files that match one of the patterns.
func (s *source) plant(patterns string) ([]*mutant, error) {
	var all []*mutant
	seen := make(map[string]int)
	for i, file := range s.files {
		match, err := matches(patterns, filepath.Base(s.names[i]))
		if err != nil {
			return nil, err
		}
		if !match {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if n.Tok != token.VAR {
					return false
				}
			case *ast.ArrayType: // its length is a constant
				return false
			}
			for _, m := range s.changes(i, n) {
				m.id, m.key = len(all)+1, within(file, n)+": "+m.key
				if seen[m.key]++; seen[m.key] > 1 {
					m.key += fmt.Sprintf(" #%d", seen[m.key])
				}
				all = append(all, m)
			}
			return true
		})
	}
	return all, nil
}

// within returns the function that a node is in, "var" outside of functions.
func within(file *ast.File, n ast.Node) string {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Pos() <= n.Pos() && n.End() <= f.End() {
			return nameOf(f)
		}
	}
	return "var"
}

func matches(patterns, name string) (bool, error) {
	for pattern := range strings.SplitSeq(patterns, ",") {
		if ok, err := filepath.Match(pattern, name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// changes returns what is to be changed at one node.
func (s *source) changes(file int, n ast.Node) []*mutant {
	var op token.Token
	var at token.Pos
	kind := ""
	switch n := n.(type) {
	case *ast.BinaryExpr:
		op, at, kind = n.Op, n.OpPos, s.kindOf(n)
	case *ast.UnaryExpr:
		if n.Op != token.SUB {
			return nil
		}
		op, at, kind = n.Op, n.OpPos, s.kindOf(n)
	case *ast.IncDecStmt:
		op, at = n.Tok, n.TokPos
	case *ast.AssignStmt:
		op, at = n.Tok, n.TokPos
	default:
		return nil
	}
	var all []*mutant
	for _, to := range swaps[op] {
		text := s.text(file, n.Pos(), at) + to.String() + s.text(file, at+token.Pos(len(op.String())), n.End())
		if !s.compiles(n, text) {
			continue
		}
		all = append(all, &mutant{
			key: strings.Join(strings.Fields(s.text(file, n.Pos(), n.End())), " ") + " => " + to.String(),
			at:  fmt.Sprintf("%s:%d", filepath.Base(s.names[file]), s.fset.Position(n.Pos()).Line), file: file,
			node: n, kind: kind, whole: text,
		})
	}
	return all
}

// compiles reports whether the changed text is correct Go: strings cannot be subtracted, for example.
func (s *source) compiles(n ast.Node, text string) bool {
	if a, ok := n.(*ast.AssignStmt); ok {
		basic, ok := s.info.Types[a.Lhs[0]].Type.Underlying().(*types.Basic)
		return ok && basic.Info()&types.IsNumeric != 0
	}
	if _, ok := n.(ast.Expr); !ok {
		return true
	}
	_, err := types.Eval(s.fset, s.types, n.Pos(), text)
	return err == nil
}

func (s *source) kindOf(e ast.Expr) string {
	return types.TypeString(types.Default(s.info.Types[e].Type), func(p *types.Package) string {
		if p == s.types {
			return ""
		}
		return "zz" + p.Name()
	})
}

func (s *source) text(file int, from, to token.Pos) string {
	return string(s.texts[file][s.fset.Position(from).Offset:s.fset.Position(to).Offset])
}
