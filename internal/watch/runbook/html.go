package runbook

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/cdc-outbox/cdc-outbox/docs"
)

// The page's own styles and icon are one level up.
const (
	head = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>Runbook · cdc-outbox</title>
<link rel="icon" href="../assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../assets/page.css">
<link rel="stylesheet" href="../assets/runbook.css">
</head>
<body>
<header class="top">
  <div class="inner">
    <p class="brand"><img src="../assets/icon.svg" alt="" width="24" height="24">cdc-outbox</p>
    <p class="subject"><a href="../">State of this process</a></p>
  </div>
</header>
<main class="inner"><article class="card book">
`
	tail = `</article></main>
</body>
</html>
`
)

// Handler serves the runbook. The caller decides which methods and paths lead to it, and with which security headers.
func Handler() http.Handler {
	page := sync.OnceValues(func() ([]byte, error) { return render(docs.Runbook) })
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body, err := page()
		if err != nil {
			http.Error(w, "the runbook cannot be rendered", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(body) // an error means that the reader went away
	})
}

// render leaves raw HTML out, the renderer's default.
func render(source []byte) ([]byte, error) {
	md := goldmark.New(
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	)
	tree := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(names{}))))
	if err := ast.Walk(tree, publish); err != nil {
		return nil, fmt.Errorf("walk: %w", err)
	}
	b := bytes.NewBufferString(head)
	if err := md.Renderer().Render(b, source, tree); err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	b.WriteString(tail)
	return b.Bytes(), nil
}

// publish makes links to other pages lead to their published URLs: the process serves only this one.
func publish(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if l, ok := n.(*ast.Link); ok && entering {
		if to := string(l.Destination); !strings.HasPrefix(to, "#") && !strings.Contains(to, "://") {
			l.Destination = []byte(publishedPages + to)
		}
	}
	return ast.WalkContinue, nil
}

// names are the headings' anchors as GitHub derives them, with a number at the end of one that exists already.
type names map[string]bool

// Generate implements parser.IDs.
func (n names) Generate(heading []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(heading)))
	unique := name
	for i := 1; n[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	n[unique] = true
	return []byte(unique)
}

// Put implements parser.IDs.
func (n names) Put(value []byte) { n[string(value)] = true }
