package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// allowance lets one expression pass in some files.
type allowance struct {
	line        int
	pattern     string // of file names, as path.Match has it; a trailing slash is all that is below
	rule, text  string // the finding's rule and a part of its text
	reason      string
	matched     bool
	description string
}

// allowList is read from lines of the form
//
//	FILES | RULE | TEXT | REASON
//
// FILES is a pattern or a directory with a slash at its end, TEXT a part of what the finding shows. # begins a comment.
type allowList struct {
	entries []*allowance
	name    string
}

func readAllowList(file, name string) (*allowList, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &allowList{name: name}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseAllowList(string(content), name)
}

func parseAllowList(content, name string) (*allowList, error) {
	list := &allowList{name: name}
	for i, text := range strings.Split(content, "\n") {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Split(text, "|")
		for j := range fields {
			fields[j] = strings.TrimSpace(fields[j])
		}
		if len(fields) != 4 || fields[0] == "" || fields[1] == "" || fields[2] == "" || fields[3] == "" {
			return nil, fmt.Errorf("%s:%d: want FILES | RULE | TEXT | REASON", name, i+1)
		}
		list.entries = append(list.entries, &allowance{
			line: i + 1, pattern: fields[0], rule: fields[1], text: fields[2], reason: fields[3], description: text,
		})
	}
	return list, nil
}

// filter returns the findings that no entry allows.
func (l *allowList) filter(found []finding) []finding {
	var kept []finding
	for _, f := range found {
		if !l.allows(f) {
			kept = append(kept, f)
		}
	}
	return kept
}

func (l *allowList) allows(f finding) bool {
	allowed := false
	for _, a := range l.entries {
		if a.rule == f.rule && strings.Contains(f.text, a.text) && a.covers(f.file) {
			a.matched, allowed = true, true
		}
	}
	return allowed
}

func (a *allowance) covers(name string) bool {
	if strings.HasSuffix(a.pattern, "/") {
		return strings.HasPrefix(name, a.pattern)
	}
	ok, err := path.Match(a.pattern, name)
	return ok && err == nil
}

// unused returns a finding for every entry that has allowed nothing.
func (l *allowList) unused() []finding {
	var unused []finding
	for _, a := range l.entries {
		if !a.matched {
			unused = append(unused, finding{
				file: l.name,
				line: a.line,
				rule: "allow-unused",
				text: a.description,
				say:  "matches nothing; remove it",
			})
		}
	}
	return unused
}
