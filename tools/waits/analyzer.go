package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// shortest is what a wait has at least before it gives up.
const shortest = 30 * time.Second

var analyzer = &analysis.Analyzer{
	Name: "waits",
	Doc:  "refuse sleeps in real time and short deadlines in tests",
	Run:  run,
}

func run(pass *analysis.Pass) (any, error) {
	marked := markedFunctions(pass)
	for _, file := range pass.Files {
		name := pass.Fset.Position(file.FileStart).Filename
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		content, err := pass.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s := &search{pass: pass, marked: marked, directives: readDirectives(pass.Fset, file, content)}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && marked[pass.TypesInfo.Defs[f.Name]] {
				s.walk(f, true)
				continue
			}
			s.walk(declaration, false)
		}
		s.directives.complain(pass)
	}
	return nil, nil
}

// markedFunctions returns the package's functions that run in bubbles alone: they have the mark, or are passed to
// synctest.Test by name.
func markedFunctions(pass *analysis.Pass) map[types.Object]bool {
	marked := map[types.Object]bool{}
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if docMarksBubble(n.Doc) {
					marked[pass.TypesInfo.Defs[n.Name]] = true
				}
			case *ast.CallExpr:
				if !isFunction(typeutil.Callee(pass.TypesInfo, n), "testing/synctest", "Test") {
					break
				}
				for _, argument := range n.Args {
					if f, ok := used(pass.TypesInfo, argument).(*types.Func); ok {
						marked[f] = true
					}
				}
			}
			return true
		})
	}
	return marked
}

func used(info *types.Info, expression ast.Expr) types.Object {
	switch e := ast.Unparen(expression).(type) {
	case *ast.Ident:
		return info.Uses[e]
	case *ast.SelectorExpr:
		return info.Uses[e.Sel]
	}
	return nil
}

// search is the walk through one file.
type search struct {
	pass       *analysis.Pass
	marked     map[types.Object]bool
	directives *directives
	cases      map[ast.Expr]bool // the time.After of cases of selects
}

// walk looks at what is below a node, with whether that is in a bubble.
func (s *search) walk(node ast.Node, bubble bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			if !bubble && s.directives.marksBubble(n.Pos()) {
				s.walk(n.Body, true)
				return false
			}
		case *ast.CallExpr:
			if !bubble && s.startsBubble(n) {
				s.walk(n.Fun, false)
				s.arguments(n)
				return false
			}
			if !bubble {
				s.call(n)
			}
		case *ast.CommClause:
			if !bubble {
				s.selectCase(n)
			}
		case *ast.UnaryExpr:
			if !bubble {
				s.receive(n)
			}
		}
		return true
	})
}

func (s *search) startsBubble(call *ast.CallExpr) bool {
	callee := typeutil.Callee(s.pass.TypesInfo, call)
	return isFunction(callee, "testing/synctest", "Test") || callee != nil && s.marked[callee]
}

// arguments walks through what is passed to a bubble: the literals are in it, the rest is not.
func (s *search) arguments(call *ast.CallExpr) {
	for _, argument := range call.Args {
		_, literal := ast.Unparen(argument).(*ast.FuncLit)
		s.walk(argument, literal)
	}
}

// giveUp has the place of the deadline among the arguments of testify's functions; its methods have no t before it.
var giveUp = map[string]int{"Eventually": 2, "Eventuallyf": 2, "EventuallyWithT": 2, "EventuallyWithTf": 2}

func (s *search) call(call *ast.CallExpr) {
	callee, ok := typeutil.Callee(s.pass.TypesInfo, call).(*types.Func)
	if !ok || callee.Pkg() == nil {
		return
	}
	if isFunction(callee, "time", "Sleep") && !s.directives.allows(call.Pos()) {
		s.pass.Reportf(call.Pos(), "time.Sleep in real time: wait for a signal, use testing/synctest, or give the "+
			"reason with %s", allowance)
	}
	switch callee.Pkg().Path() {
	case "github.com/stretchr/testify/require", "github.com/stretchr/testify/assert":
	default:
		return
	}
	at, ok := giveUp[callee.Name()]
	if !ok {
		return
	}
	if callee.Signature().Recv() != nil {
		at--
	}
	if at >= len(call.Args) {
		return
	}
	if d, short := s.short(call.Args[at]); short && !s.directives.allows(call.Pos(), call.Args[at].Pos()) {
		s.pass.Reportf(call.Args[at].Pos(), "%s gives up after %s: a busy machine needs %s, which costs nothing when "+
			"green", callee.Name(), d, shortest)
	}
}

func (s *search) selectCase(clause *ast.CommClause) {
	var from ast.Expr
	switch comm := clause.Comm.(type) {
	case *ast.ExprStmt:
		from = comm.X
	case *ast.AssignStmt:
		from = comm.Rhs[0]
	}
	receive, call := s.timer(from)
	if call == nil {
		return
	}
	if s.cases == nil {
		s.cases = map[ast.Expr]bool{}
	}
	s.cases[receive] = true
	if d, short := s.short(call.Args[0]); short && !s.directives.allows(clause.Pos(), call.Pos()) {
		s.pass.Reportf(call.Pos(), "this select waits only %s: give it %s, which costs nothing when green, or the "+
			"reason with %s", d, shortest, allowance)
	}
}

// receive reports a plain <-time.After, which is a sleep. The clause of a select comes before what is in it.
func (s *search) receive(expression *ast.UnaryExpr) {
	receive, call := s.timer(expression)
	if call == nil || s.cases[receive] || s.directives.allows(call.Pos()) {
		return
	}
	s.pass.Reportf(call.Pos(), "<-time.After is a sleep in real time: wait for a signal, use testing/synctest, or "+
		"give the reason with %s", allowance)
}

// timer returns the receive and the call of an expression <-time.After(d).
func (s *search) timer(expression ast.Expr) (ast.Expr, *ast.CallExpr) {
	receive, ok := ast.Unparen(expression).(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return nil, nil
	}
	call, ok := ast.Unparen(receive.X).(*ast.CallExpr)
	if !ok || !isFunction(typeutil.Callee(s.pass.TypesInfo, call), "time", "After") {
		return nil, nil
	}
	return receive, call
}

// short returns a duration that is known here and is shorter than a busy machine may need.
func (s *search) short(expression ast.Expr) (time.Duration, bool) {
	value := s.pass.TypesInfo.Types[expression].Value
	if value == nil || value.Kind() != constant.Int {
		return 0, false
	}
	n, exact := constant.Int64Val(value)
	return time.Duration(n), exact && time.Duration(n) < shortest
}

func isFunction(object types.Object, pkg, name string) bool {
	f, ok := object.(*types.Func)
	return ok && f.Pkg() != nil && f.Pkg().Path() == pkg && f.Name() == name && f.Signature().Recv() == nil
}
