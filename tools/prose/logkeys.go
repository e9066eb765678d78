package main

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
)

// logKeys finds constants of the catalogue of log keys that no log line uses.
type logKeys struct {
	declared []finding
	used     map[string]bool
}

func newLogKeys() *logKeys { return &logKeys{used: map[string]bool{}} }

// isLogKey reports whether a constant of a directory belongs to the catalogue.
func isLogKey(dir, name string) bool {
	switch {
	case strings.HasSuffix("/"+dir, "/internal/base/telemetry"):
		return strings.HasPrefix(name, "Key") && name != "Key"
	case strings.HasSuffix("/"+dir, "/internal/base/logkey"):
		return ast.IsExported(name)
	}
	return false
}

// add notes what a file declares and uses. A use in a test keeps no key alive.
func (k *logKeys) add(name string, f file) {
	if f.syntax.test {
		return
	}
	declared := map[*ast.Ident]bool{}
	ast.Inspect(f.syntax.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.CONST {
				k.declare(name, f.syntax, n, declared)
			}
		case *ast.Ident:
			if !declared[n] {
				k.used[n.Name] = true
			}
		}
		return true
	})
}

func (k *logKeys) declare(name string, s *source, d *ast.GenDecl, declared map[*ast.Ident]bool) {
	for _, spec := range d.Specs {
		for _, n := range spec.(*ast.ValueSpec).Names {
			if !isLogKey(path.Dir(name), n.Name) {
				continue
			}
			declared[n] = true
			k.declared = append(k.declared, finding{
				file: name,
				line: s.line(n.Pos()),
				rule: "log-key-unused",
				text: n.Name,
				say:  "no log line uses this key",
			})
		}
	}
}

func (k *logKeys) findings() []finding {
	var unused []finding
	for _, f := range k.declared {
		if !k.used[f.text] {
			unused = append(unused, f)
		}
	}
	return unused
}
