package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// checkMessages checks how log messages, errors and remedies begin and end.
func checkMessages(name string, f file) []finding {
	if f.syntax.test {
		return nil
	}
	m := messages{name: name, source: f.syntax, imports: importNames(f.syntax.file)}
	ast.Inspect(f.syntax.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			m.call(n)
		case *ast.KeyValueExpr:
			m.field(n)
		}
		return true
	})
	return m.found
}

type messages struct {
	name    string
	source  *source
	imports map[string]string // the name a package has in this file -> its path
	found   []finding
}

func (m *messages) report(pos token.Pos, rule, text, say string) {
	m.found = append(m.found, finding{file: m.name, line: m.source.line(pos), rule: rule, text: clip(text), say: say})
}

func (m *messages) call(c *ast.CallExpr) {
	selector, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) == 0 {
		return
	}
	pkg := ""
	if x, ok := selector.X.(*ast.Ident); ok {
		pkg = m.imports[x.Name]
	}
	switch {
	case pkg == "errors" && selector.Sel.Name == "New", pkg == "fmt" && selector.Sel.Name == "Errorf":
		m.message("error-style", c.Args[0])
	case pkg == "go.uber.org/zap":
		m.logField(c)
	case pkg == "" || pkg == "log/slog":
		if i := logMessage(selector, c); i >= 0 {
			m.constant(c.Args[i])
			m.message("log-style", c.Args[i])
		}
	}
}

// logField reports a key that is written out where the catalogue's constant belongs.
func (m *messages) logField(c *ast.CallExpr) {
	if machinery.MatchString(m.name) {
		return
	}
	if key, ok := stringValue(c.Args[0]); ok && len(c.Args) == 2 {
		m.report(c.Pos(), "log-key-literal", key, "use the constant of the catalogue of log keys")
	}
}

// machinery is what tests and measures the product, and logs for people at a terminal.
var machinery = regexp.MustCompile(`^(internal/(testkit|demo|bench|e2e|conformance)/|test/|examples/|tools/)`)

var loggerName = regexp.MustCompile(`(?i)^(log|logger|l|lg|slog)$`)

// logMessage returns which argument of a call is the log message, -1 for a call that logs nothing. Without types a
// logger is known by its name.
func logMessage(selector *ast.SelectorExpr, c *ast.CallExpr) int {
	if !loggerName.MatchString(lastName(selector.X)) {
		return -1
	}
	switch selector.Sel.Name {
	case "Debug", "Info", "Warn", "Error", "DPanic", "Panic", "Fatal":
		return 0
	case "Log", "Check", "DebugContext", "InfoContext", "WarnContext", "ErrorContext":
		if len(c.Args) > 1 {
			return 1
		}
	}
	return -1
}

func lastName(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr: // c.log.With(...), logger()
		if s, ok := e.Fun.(*ast.SelectorExpr); ok &&
			(s.Sel.Name == "With" || s.Sel.Name == "Named" || s.Sel.Name == "WithLazy") {
			return lastName(s.X)
		}
		return lastName(e.Fun)
	}
	return ""
}

func (m *messages) constant(arg ast.Expr) {
	for _, part := range parts(arg) {
		switch p := part.(type) {
		case *ast.BasicLit:
			continue
		case *ast.Ident:
			if isConstant(m.source.file, p.Name) {
				continue
			}
		}
		m.report(arg.Pos(), "log-constant", "message", "a log message is one constant; what varies belongs into fields")
		return
	}
}

func isConstant(f *ast.File, name string) bool {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			for _, n := range spec.(*ast.ValueSpec).Names {
				if n.Name == name {
					return true
				}
			}
		}
	}
	return false
}

// message checks the beginning and the end of a log message or an error's text.
func (m *messages) message(rule string, arg ast.Expr) {
	operands := parts(arg)
	if text, ok := stringValue(operands[0]); ok {
		if text != "" && !beginsLikeError(text) {
			m.report(arg.Pos(), rule, text, "begin in lower case, or with a name or an identifier")
		}
	}
	if text, ok := stringValue(
		operands[len(operands)-1],
	); ok && text != "" &&
		strings.ContainsAny(text[len(text)-1:], ".!\n") {
		m.report(arg.Pos(), rule, text, "no punctuation at the end")
	}
}

// names begin with a capital wherever they are.
var names = regexp.MustCompile(
	`^(Amazon|Alertmanager|Apache|Aurora|Avro|Azure|Chromium|Confluent|Connect|Debezium|Docker|Go|Google|Grafana|` +
		`Java|Kafka|Linux|Maven|Neon|Odyssey|PgBouncer|Pgpool|PostgreSQL|Postgres|Prometheus|Redpanda|Slack|` +
		`Supabase|Unix|Zstandard)\b`,
)

func beginsLikeError(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	first, rest := rune(0), ""
	for i, r := range word {
		if i == 0 {
			first = r
			continue
		}
		rest = word[i:]
		break
	}
	// A capital or a digit further on makes it an acronym or an identifier.
	return !unicode.IsUpper(first) || names.MatchString(word) || strings.ContainsFunc(rest, func(r rune) bool {
		return unicode.IsUpper(r) || unicode.IsDigit(r) || r == '_' || r == '.' || r == '-'
	})
}

// field checks the remedy of an error or a finding: a sentence.
func (m *messages) field(kv *ast.KeyValueExpr) {
	key, ok := kv.Key.(*ast.Ident)
	if !ok || key.Name != "Next" && key.Name != "Remedy" {
		return
	}
	operands := parts(kv.Value)
	first, ok := stringValue(operands[0])
	if !ok || first == "" {
		return
	}
	if r := []rune(first)[0]; unicode.IsLower(r) {
		m.report(kv.Pos(), "remedy-style", first, "a remedy is a sentence: begin with a capital")
	}
	last, ok := stringValue(operands[len(operands)-1])
	if ok && !strings.HasSuffix(last, ".") && !strings.HasSuffix(last, ":") {
		m.report(
			kv.Pos(),
			"remedy-style",
			last,
			"a remedy is a sentence: end with a period, and list what to paste apart",
		)
	}
}

func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := p[strings.LastIndexByte(p, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

var snakeCase = regexp.MustCompile(`^(Test|Fuzz|Benchmark)\w*_`)

// checkTestNames reports tests with underscores in their names: a name says what is tested, t.Run and comments say the
// sentence.
func checkTestNames(name string, f file) []finding {
	if !f.syntax.test {
		return nil
	}
	var found []finding
	for _, d := range f.syntax.file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil {
			continue
		}
		at := finding{file: name, line: f.syntax.line(fn.Pos()), text: fn.Name.Name}
		switch {
		case snakeCase.MatchString(fn.Name.Name):
			at.rule, at.say = "test-name", "TestSubject, with t.Run(\"what it does\") for each sentence"
			found = append(found, at)
		case len(fn.Name.Name) > 40 && strings.HasPrefix(fn.Name.Name, "Test"):
			at.rule, at.advice = "test-name-long", true
			at.say = "name the subject; the sentence belongs into t.Run or the comment"
			found = append(found, at)
		}
	}
	return found
}
