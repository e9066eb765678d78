package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	limit = 120 // columns of a line
	slack = 10  // how much shorter than its paragraph's longest line a line may end although the next word would fit
)

// checkWrapping reports lines beyond the limit, and lines that end early in mid paragraph.
func checkWrapping(name string, p paragraph) []finding {
	if p.fixed || p.kind != markdown && p.kind != comment {
		return nil
	}
	var found []finding
	report := func(l line, rule, say string) {
		f := finding{file: name, line: l.number, rule: rule, text: clip(l.text), say: say}
		f.advice = rule == "long" && p.kind == comment // golangci-lint's lll reports it
		found = append(found, f)
	}
	longest := 0
	for i, l := range p.lines {
		w := width(p.start(i)) + width(l.text)
		longest = max(longest, min(w, limit))
		if w > limit && p.breakable(i) {
			report(l, "long", fmt.Sprintf("%d columns, the limit is %d", w, limit))
		}
	}
	for i, l := range p.lines[:len(p.lines)-1] {
		next := p.units(paragraph{lines: p.lines[i+1:]}.text())
		w := width(p.start(i)) + width(l.text)
		if w+1+width(next[0])+slack <= longest && !strings.HasSuffix(l.text, ":") {
			report(l, "ragged", fmt.Sprintf("ends at column %d in a paragraph of %d", w, longest))
		}
	}
	return found
}

// start is what line i begins with.
func (p paragraph) start(i int) string {
	if i == 0 {
		return p.prefix
	}
	return p.hang
}

// breakable reports whether a line could be broken so that it fits: it has a word that begins before the limit, other
// than its first.
func (p paragraph) breakable(i int) bool {
	words := p.units(p.lines[i].text)
	return len(words) > 1 && width(p.start(i))+width(words[0]) < limit
}

func clip(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}

var link = regexp.MustCompile(`\[[^\]]+\]\([^)\s]+\)`)

// units splits text into what has to stay on one line: words, short code spans, links of Markdown, and what would begin
// a list, a heading or a quotation at the beginning of a line together with the word before it.
func (p paragraph) units(text string) []string {
	protected := codeSpan.ReplaceAllStringFunc(text, func(s string) string {
		if len(s) > 60 {
			return s
		}
		return strings.ReplaceAll(s, " ", "\x00")
	})
	if p.kind == markdown {
		protected = link.ReplaceAllStringFunc(protected, func(s string) string {
			return strings.ReplaceAll(s, " ", "\x00")
		})
	}
	var units []string
	for i, word := range strings.Fields(protected) {
		word = strings.ReplaceAll(word, "\x00", " ")
		if i > 0 && p.marker(word) {
			units[len(units)-1] += " " + word
			continue
		}
		units = append(units, word)
	}
	return units
}

// wrapped returns the lines of a paragraph, filled up to the limit.
func (p paragraph) wrapped() []string {
	var (
		lines   []string
		current = p.prefix
		empty   = true
	)
	for _, unit := range p.units(p.text()) {
		if !empty && width(current)+1+width(unit) > limit {
			lines = append(lines, current)
			current, empty = p.hang, true
		}
		if !empty {
			current += " "
		}
		current += unit
		empty = false
	}
	return append(lines, current)
}

// marker reports whether a word would begin a list, a heading or a quotation at the beginning of a line.
func (p paragraph) marker(word string) bool {
	return strings.Trim(word, "#") == "" || word == ">" || word == "|" || listItem.MatchString(word+" x") ||
		p.kind == comment && directive.MatchString(word)
}

// wrapFiles rewraps the paragraphs that checkWrapping reports.
func wrapFiles(o options, names []string) error {
	for _, name := range names {
		if o.paths != "" && !contains(o.paths, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		f, err := readFile(o.root, name)
		if err != nil {
			return err
		}
		if f.generated {
			continue
		}
		if err := wrapFile(filepath.Join(o.root, name), name, f.paragraphs); err != nil {
			return err
		}
	}
	return nil
}

func wrapFile(path, name string, paragraphs []paragraph) error {
	replaced := map[int][]string{} // first line of a paragraph -> its new lines
	dropped := map[int]bool{}
	for _, p := range paragraphs {
		if len(checkWrapping(name, p)) == 0 {
			continue
		}
		replaced[p.lines[0].number] = p.wrapped()
		for _, l := range p.lines {
			dropped[l.number] = true
		}
	}
	if len(replaced) == 0 {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var out []string
	for i, text := range strings.Split(string(content), "\n") {
		out = append(out, replaced[i+1]...)
		if !dropped[i+1] {
			out = append(out, text)
		}
	}
	return os.WriteFile(path, []byte(strings.Join(out, "\n")), 0o644)
}
