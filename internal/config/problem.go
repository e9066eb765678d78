package config

import (
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/nearest"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Key     string // as it was written: a key, a variable or a flag
	Where   string // file:line, variable or flag; empty if it is set nowhere
	Value   string // the value, quoted; empty for secrets and if there is none
	What    string // the mistake
	Allowed string // the allowed values; empty if What includes them
	about   string // key of an open decision, which a variable or a flag settles
}

// String is one line.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Key)
	if p.Value != "" {
		b.WriteString(" = " + p.Value)
	}
	if p.Where != "" && p.Where != p.Key {
		b.WriteString(" (" + p.Where + ")")
	}
	b.WriteString(": " + p.What)
	if p.Allowed != "" {
		b.WriteString("; allowed: " + p.Allowed)
	}
	return b.String()
}

// Problems is everything that is wrong, so that all of it can be fixed at once.
type Problems []Problem

// Error implements error: one line for each problem.
func (p Problems) Error() string {
	if len(p) == 1 {
		return p[0].String()
	}
	lines := make([]string, 0, len(p)+1)
	lines = append(lines, fmt.Sprintf("%d problems", len(p)))
	for _, one := range p {
		lines = append(lines, "  - "+one.String())
	}
	return strings.Join(lines, "\n")
}

// unknown returns the problem of an unknown name. The value is not shown: the name may be a misspelled password.
func unknown(name, where, kind string, candidates []string) Problem {
	p := Problem{Key: name, Where: where, What: "unknown " + kind}
	if near := nearest.Name(name, candidates); near != "" {
		p.What += ", did you mean " + near + "?"
	}
	return p
}
