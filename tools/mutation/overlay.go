package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// switchboard is compiled into the package. It switches one mutant on, or writes down which ones are reached.
const switchboard = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

var (
	zzOn, _ = strconv.Atoi(os.Getenv("MUTANT"))
	zzFile  = func() int {
		if name := os.Getenv("MUTANTS_REACHED"); name != "" {
			flags := syscall.O_WRONLY | syscall.O_APPEND | syscall.O_CREAT | syscall.O_CLOEXEC
			if fd, err := syscall.Open(name, flags, 0o600); err == nil {
				return fd
			}
		}
		return -1
	}()
	zzSeen [%d]atomic.Bool
)

func zzMutant(id int) bool {
	if zzFile >= 0 && !zzSeen[id].Swap(true) {
		_, _ = syscall.Write(zzFile, []byte(strconv.Itoa(id)+"\n"))
	}
	return id == zzOn
}
`

// writeOverlay writes the files with all mutants in them, and returns the name of the overlay for the go command.
func (s *source) writeOverlay(work string, mutants []*mutant) (string, error) {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return "", err
	}
	replace := make(map[string]string)
	add := func(name, text string) error {
		replace[filepath.Join(s.dir, name)] = filepath.Join(work, name)
		return os.WriteFile(filepath.Join(work, name), []byte(text), 0o600)
	}
	if err := add("zzmutant.go", fmt.Sprintf(switchboard, s.types.Name(), len(mutants)+1)); err != nil {
		return "", err
	}
	for i := range s.files {
		if text := s.instrumented(i, mutants); text != "" {
			if err := add(filepath.Base(s.names[i]), text); err != nil {
				return "", err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(work, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// instrumented returns the text of a file in which each node that has mutants is a choice; empty when none has.
func (s *source) instrumented(file int, mutants []*mutant) string {
	choices := make(map[ast.Node][]*mutant)
	for _, m := range mutants {
		if m.file == file {
			choices[m.node] = append(choices[m.node], m)
		}
	}
	if len(choices) == 0 {
		return ""
	}
	f := s.files[file]
	body := s.render(file, f, choices)
	clause := s.text(file, f.FileStart, f.Name.End())
	imports := ""
	for _, p := range s.types.Imports() {
		if regexp.MustCompile(`\bzz` + p.Name() + `\.`).MatchString(body) {
			imports += fmt.Sprintf("; import zz%s %q", p.Name(), p.Path())
		}
	}
	return clause + imports + body[len(clause):]
}

// render writes a node with choices at its mutants. Line numbers stay, because no line is added.
func (s *source) render(file int, n ast.Node, choices map[ast.Node][]*mutant) string {
	var b strings.Builder
	from, to := n.Pos(), n.End()
	if f, ok := n.(*ast.File); ok {
		from, to = f.FileStart, f.FileEnd
	}
	ast.Inspect(n, func(child ast.Node) bool {
		if child == nil || child == n || choices[child] == nil {
			return true
		}
		b.WriteString(s.text(file, from, child.Pos()))
		b.WriteString(choice(choices[child], s.render(file, child, choices)))
		from = child.End()
		return false
	})
	b.WriteString(s.text(file, from, to))
	return b.String()
}

// choice is a call of a function, so that it can be the condition of a case and the last part of a for statement.
func choice(mutants []*mutant, original string) string {
	kind, before := mutants[0].kind, ""
	if kind != "" {
		before = "return "
	}
	text := "func() " + kind + " { "
	for _, m := range mutants {
		text += fmt.Sprintf("if zzMutant(%d) { ", m.id)
		if kind == "" {
			text += m.whole + "; return }; "
		} else {
			text += before + m.whole + " }; "
		}
	}
	return text + before + original + " }()"
}
