package main

import (
	"bytes"
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const (
	allowance  = "//waits:ok"
	bubbleMark = "//waits:bubble"
)

// directive is one //waits:ok of a file.
type directive struct {
	pos    token.Pos
	reason string
	used   bool
}

// directives has the marks of a file by the lines that they stand for: their own, and the one below their comment.
type directives struct {
	fset    *token.FileSet
	allowed map[int]*directive
	bubbles map[int]bool
	all     []*directive
}

func readDirectives(fset *token.FileSet, file *ast.File, content []byte) *directives {
	found := &directives{fset: fset, allowed: map[int]*directive{}, bubbles: map[int]bool{}}
	for _, group := range file.Comments {
		below := fset.Position(group.End()).Line + 1
		if start := fset.Position(group.Pos()); !startsLine(content, start.Offset) {
			below = start.Line
		}
		for _, comment := range group.List {
			line := fset.Position(comment.Pos()).Line
			if reason, ok := after(comment.Text, allowance); ok {
				d := &directive{pos: comment.Pos(), reason: reason}
				found.all = append(found.all, d)
				found.allowed[line], found.allowed[below] = d, d
			}
			if _, ok := after(comment.Text, bubbleMark); ok {
				found.bubbles[line], found.bubbles[below] = true, true
			}
		}
	}
	return found
}

func startsLine(content []byte, offset int) bool {
	line := content[bytes.LastIndexByte(content[:offset], '\n')+1 : offset]
	return len(bytes.TrimSpace(line)) == 0
}

// after returns the text after a directive, and whether the comment is that directive.
func after(comment, name string) (string, bool) {
	rest, ok := strings.CutPrefix(comment, name)
	if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return "", false
	}
	rest, _, _ = strings.Cut(rest, "//")
	return strings.TrimSpace(rest), true
}

// allows reports whether one of the positions is on a line that a directive stands for.
func (d *directives) allows(positions ...token.Pos) bool {
	allowed := false
	for _, pos := range positions {
		if mark := d.allowed[d.fset.Position(pos).Line]; mark != nil {
			mark.used, allowed = true, true
		}
	}
	return allowed
}

func (d *directives) marksBubble(pos token.Pos) bool { return d.bubbles[d.fset.Position(pos).Line] }

// complain reports directives that have no reason or allow nothing.
func (d *directives) complain(pass *analysis.Pass) {
	for _, mark := range d.all {
		switch {
		case mark.reason == "":
			pass.Reportf(mark.pos, "%s needs a reason", allowance)
		case !mark.used:
			pass.Reportf(mark.pos, "%s allows nothing here; remove it", allowance)
		}
	}
}

func docMarksBubble(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, comment := range doc.List {
		if _, ok := after(comment.Text, bubbleMark); ok {
			return true
		}
	}
	return false
}
