package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// kind says where a paragraph is from, since not every rule makes sense everywhere.
type kind int

const (
	markdown kind = iota
	comment       // of Go, on lines of its own
	aside         // of Go, after code on the same line, or between /* and */
	literal       // a string of Go, its concatenated parts joined
	notes         // a comment of any other file
	code          // a line of any other file that is not a comment
)

// paragraph is text that is read as a whole. Rules about words see its lines joined by spaces.
type paragraph struct {
	kind   kind
	lines  []line
	fixed  bool // its line breaks have a meaning, as in tables and code: not wrapped
	prefix string
	hang   string // what every line but the first begins with
}

// line is one line of a paragraph. A string literal without line breaks in its value is one line, wherever its parts
// are.
type line struct {
	number int
	text   string // without indentation, comment markers and list markers
}

// joined returns the paragraph's text, and for each of its bytes the line it is from.
func (p paragraph) joined() (string, func(offset int) int) {
	var (
		b      strings.Builder
		starts []int
	)
	for i, l := range p.lines {
		if i > 0 {
			b.WriteByte(' ')
		}
		starts = append(starts, b.Len())
		b.WriteString(l.text)
	}
	return b.String(), func(offset int) int {
		number := 0
		for i, start := range starts {
			if start <= offset {
				number = p.lines[i].number
			}
		}
		return number
	}
}

func (p paragraph) text() string {
	text, _ := p.joined()
	return text
}

// width is the number of columns that text takes, with a tab as four.
func width(text string) int {
	return utf8.RuneCountInString(text) + 3*strings.Count(text, "\t")
}

var (
	codeSpan   = regexp.MustCompile("``[^`]+(`[^`]+)*``|`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)\s]*\)`)
	address    = regexp.MustCompile(`\bhttps?://[^\s)>\]]+`)
)

// masked replaces what is quoted, not said, by as many bytes that no rule matches: code, targets of links, addresses.
func masked(text string) string {
	for _, quoted := range []*regexp.Regexp{codeSpan, linkTarget, address} {
		text = quoted.ReplaceAllStringFunc(text, func(s string) string {
			// The middle stays a word, so that "`x` is told" still has a subject and "`a` `b`" two words.
			return "\x01" + strings.Repeat("\x01", max(0, len(s)-1))
		})
	}
	return text
}

var listItem = regexp.MustCompile(`^(\s*(?:[-*+•]|\d{1,2}[.)])\s+)(\S.*)$`)
