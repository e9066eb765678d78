package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// source is a parsed Go file.
type source struct {
	set  *token.FileSet
	file *ast.File
	test bool
}

func (s *source) line(pos token.Pos) int { return s.set.Position(pos).Line }

func readGo(name string, content []byte) (file, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, fmt.Errorf("parse %s: %w", name, err)
	}
	s := &source{set: set, file: parsed, test: strings.HasSuffix(name, "_test.go")}
	f := file{syntax: s, generated: ast.IsGenerated(parsed)}
	lines := strings.Split(string(content), "\n")
	for _, group := range parsed.Comments {
		f.paragraphs = append(f.paragraphs, commentParagraphs(s, lines, group)...)
	}
	f.paragraphs = append(f.paragraphs, literals(s)...)
	return f, nil
}

// commentParagraphs splits a comment group. Only comments on lines of their own, made with //, have line breaks that
// are ours to check.
func commentParagraphs(s *source, lines []string, group *ast.CommentGroup) []paragraph {
	var r commentReader
	output := exampleOutput.MatchString(group.Text())
	for _, c := range group.List {
		number := s.line(c.Pos())
		before := lines[number-1][:s.set.Position(c.Pos()).Column-1]
		switch {
		case strings.HasPrefix(c.Text, "/*"):
			r.end()
			for i, text := range strings.Split(strings.Trim(c.Text, "/*"), "\n") {
				r.addAside(number+i, text)
			}
		case strings.TrimSpace(before) != "" || output:
			r.end()
			r.addAside(number, strings.TrimPrefix(c.Text, "//"))
		default:
			r.line(number, before, strings.TrimPrefix(c.Text, "//"))
		}
	}
	r.end()
	return r.done
}

// exampleOutput is how the comment begins that a test of an example compares.
var exampleOutput = regexp.MustCompile(`(?i)^(unordered )?output:`)

var directive = regexp.MustCompile(`^(go:|line |export |nolint|lint:|\+build|[a-z]+:[a-z])`)

type commentReader struct {
	done []paragraph
	open paragraph
}

func (r *commentReader) line(number int, indent, text string) {
	body := strings.TrimPrefix(text, " ")
	item := listItem.FindStringSubmatch(body)
	inItem := len(r.open.lines) > 0 && r.open.prefix != r.open.hang
	switch {
	case strings.TrimSpace(text) == "" || directive.MatchString(text):
		r.end()
	case item != nil:
		r.end()
		prefix := indent + "// " + item[1]
		r.open = paragraph{kind: comment, prefix: prefix, hang: indent + "// " + strings.Repeat(" ", width(item[1]))}
		r.open.lines = []line{{number, item[2]}}
	case strings.HasPrefix(body, "\t"), strings.HasPrefix(body, " ") && !inItem: // preformatted
		r.end()
	case strings.HasPrefix(body, "# ") || strings.HasSuffix(body, "  "):
		r.end()
		r.done = append(r.done, paragraph{kind: comment, fixed: true, lines: []line{{number, body}}})
	default:
		if inItem && !strings.HasPrefix(body, " ") {
			r.end()
		}
		if len(r.open.lines) == 0 {
			r.open = paragraph{kind: comment, prefix: indent + "// ", hang: indent + "// "}
		}
		r.open.lines = append(r.open.lines, line{number, strings.TrimSpace(body)})
	}
}

func (r *commentReader) addAside(number int, text string) {
	lines := []line{{number, strings.TrimSpace(text)}}
	r.done = append(r.done, paragraph{kind: aside, fixed: true, lines: lines})
}

func (r *commentReader) end() {
	if len(r.open.lines) > 0 {
		r.done = append(r.done, r.open)
	}
	r.open = paragraph{}
}

// literals returns the strings of a file that hold more than one word. Parts that are joined with + are one string, so
// that a phrase is found across a break of the line.
func literals(s *source) []paragraph {
	var found []paragraph
	add := func(expr ast.Expr) {
		if p := literalParagraph(s, expr); len(p.lines) > 0 {
			found = append(found, p)
		}
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr:
			if n.Op != token.ADD || !hasString(n) {
				return true
			}
			add(n)
			for _, part := range parts(n) {
				if _, ok := stringValue(part); !ok {
					ast.Inspect(part, visit)
				}
			}
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				add(n)
			}
		}
		return true
	}
	ast.Inspect(s.file, visit)
	return found
}

// literalParagraph has one line for each line of the string's value.
func literalParagraph(s *source, expr ast.Expr) paragraph {
	p := paragraph{kind: literal, fixed: true}
	fresh := true
	for _, part := range parts(expr) {
		value, ok := stringValue(part)
		if !ok {
			value = "\x01" // a word that is not known here
		}
		_, raw := part.(*ast.BasicLit)
		for i, text := range strings.Split(value, "\n") {
			number := s.line(part.Pos())
			if raw && strings.HasPrefix(part.(*ast.BasicLit).Value, "`") {
				number += i
			}
			if last := len(p.lines) - 1; i == 0 && !fresh && last >= 0 {
				p.lines[last].text += text
			} else {
				p.lines = append(p.lines, line{number, text})
			}
		}
		fresh = false
	}
	for _, l := range p.lines {
		if strings.ContainsAny(strings.TrimSpace(l.text), " ") {
			return p
		}
	}
	return paragraph{}
}

// parts returns the operands of a chain of +.
func parts(expr ast.Expr) []ast.Expr {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return parts(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return append(parts(e.X), parts(e.Y)...)
		}
	}
	return []ast.Expr{expr}
}

func hasString(expr ast.Expr) bool {
	for _, part := range parts(expr) {
		if _, ok := stringValue(part); ok {
			return true
		}
	}
	return false
}

func stringValue(expr ast.Expr) (string, bool) {
	lit, ok := expr.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(lit.Value)
	return value, err == nil
}
