package config

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Key     string // as it was written: a key, a variable or a flag
	Where   string // file:line, variable or flag; empty where it is not set anywhere
	Value   string // what was given, quoted; empty for secrets and where there is none
	What    string // what is wrong with it
	Allowed string // what would be right; empty where What says it
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

// Problems is everything that is wrong, so that it can be mended in one go.
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

// unknown is the problem of a name that means nothing. Its value is not shown: it may be a misspelled password.
func unknown(name, where, kind string, candidates []string) Problem {
	p := Problem{Key: name, Where: where, What: "unknown " + kind}
	if near := Nearest(name, candidates); near != "" {
		p.What += ", did you mean " + near + "?"
	}
	return p
}

// Nearest returns the candidate that name was probably meant to be, or nothing where none is near. A name that is the
// end of exactly one candidate ("slot" of "postgres.slot") counts as near.
func Nearest(name string, candidates []string) string {
	best, distance := "", len(name)/3+2
	var suffix []string
	for _, c := range candidates {
		if d := levenshtein.Distance(name, c, nil); d < distance {
			best, distance = c, d
		}
		last := name[strings.LastIndexByte(name, '.')+1:]
		if strings.HasSuffix(c, last) && len(c) > len(last) && strings.ContainsRune("._-", rune(c[len(c)-len(last)-1])) {
			suffix = append(suffix, c)
		}
	}
	if best == "" && len(suffix) == 1 {
		return suffix[0]
	}
	return best
}
