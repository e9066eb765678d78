package main

import (
	"slices"
	"strings"
)

// bug is what is run: a planted bug, or several at once.
type bug struct {
	name       string
	changes    []mutant
	with, test string
}

// together are bugs that take out several rules at once, because each rule makes up for the others: the names of the
// planted bugs that each consists of.
var together = []struct {
	name  string
	parts []string
}{
	{
		"take a server that was put back for the same server",
		[]string{
			"do not compare the checkpoint's number with what this process wrote",
			"do not compare the checkpoint's number with Kafka's",
			"trust the position in Kafka",
			"trust what was read before an interruption",
		},
	},
}

// bugs lists all of them.
func bugs() (all []bug) {
	for _, m := range mutants {
		all = append(all, bug{m.name, []mutant{m}, m.with, m.test})
	}
	for _, t := range together {
		b := bug{name: t.name}
		for _, part := range t.parts {
			i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == part })
			b.changes = append(b.changes, mutants[i])
		}
		all = append(all, b)
	}
	return all
}

// files lists the files that are changed, for the table.
func (b bug) files() string {
	var files []string
	for _, c := range b.changes {
		if file := "`" + c.file + "`"; !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return strings.Join(files, ", ")
}
