package main

import (
	"regexp"
	"strings"
)

var (
	fence        = regexp.MustCompile("^\\s*(```|~~~)")
	heading      = regexp.MustCompile(`^\s{0,3}#{1,6}\s`)
	tableRow     = regexp.MustCompile(`^\s*\|`)
	markupLine   = regexp.MustCompile(`^\s*<|^\s*\[[^\]]+\]:\s|^\s*(---+|===+|\*\*\*+)\s*$`)
	quoteMarker  = regexp.MustCompile(`^\s*>\s?`)
	indentedCode = regexp.MustCompile(`^(\t| {4,})`)
)

// readMarkdown splits a page into paragraphs. Fenced and indented code is left out; of a table every row is a
// paragraph.
func readMarkdown(page string) []paragraph {
	r := markdownReader{}
	for i, raw := range strings.Split(page, "\n") {
		r.line(i+1, strings.TrimRight(raw, "\r"))
	}
	r.end()
	return r.done
}

type markdownReader struct {
	done    []paragraph
	open    paragraph
	inFence bool
	inItem  bool // indented lines continue a list and are not code
}

func (r *markdownReader) line(number int, raw string) {
	switch {
	case fence.MatchString(raw):
		r.end()
		r.inFence = !r.inFence
	case r.inFence:
	case strings.TrimSpace(raw) == "":
		r.end()
	case heading.MatchString(raw), tableRow.MatchString(raw), markupLine.MatchString(raw):
		r.end()
		r.inItem = false
		r.done = append(r.done, paragraph{kind: markdown, fixed: true, lines: []line{{number, strings.TrimSpace(raw)}}})
	case len(r.open.lines) == 0 && !r.inItem && indentedCode.MatchString(raw):
	default:
		r.prose(number, raw)
	}
}

func (r *markdownReader) prose(number int, raw string) {
	indent := raw[:len(raw)-len(strings.TrimLeft(raw, " \t"))]
	if m := listItem.FindStringSubmatch(raw); m != nil {
		r.end()
		r.inItem = true
		r.open = paragraph{kind: markdown, prefix: m[1], hang: strings.Repeat(" ", width(m[1]))}
		r.open.lines = append(r.open.lines, line{number, m[2]})
	} else {
		text := strings.TrimLeft(raw, " \t")
		if len(r.open.lines) == 0 {
			r.inItem = r.inItem && indent != ""
			r.open = paragraph{kind: markdown, prefix: indent, hang: indent}
			if q := quoteMarker.FindString(raw); q != "" {
				r.open.prefix, r.open.hang = q, q
			}
		}
		r.open.lines = append(r.open.lines, line{number, quoteMarker.ReplaceAllString(text, "")})
	}
	if strings.HasSuffix(raw, "  ") || strings.HasSuffix(raw, `\`) { // a line break that is meant
		r.open.fixed = true
	}
}

func (r *markdownReader) end() {
	if len(r.open.lines) > 0 {
		r.done = append(r.done, r.open)
	}
	r.open = paragraph{}
}

var commentMarker = regexp.MustCompile(`^\s*(#+|//+|--|\*|/\*+|<!--)\s?`)

// readPlain splits a file of which only the comments' markers are known: consecutive comment lines are one paragraph,
// every other line is one of its own.
func readPlain(content string) []paragraph {
	var (
		done []paragraph
		open paragraph
	)
	end := func() {
		if len(open.lines) > 0 {
			done = append(done, open)
		}
		open = paragraph{kind: notes, fixed: true}
	}
	for i, raw := range strings.Split(content, "\n") {
		text := strings.TrimSpace(raw)
		marker := commentMarker.FindString(text)
		switch {
		case len(raw) > 2000: // not written by a person
		case text == "" || marker == text:
			end()
		case marker == "":
			end()
			done = append(done, paragraph{kind: code, fixed: true, lines: []line{{i + 1, text}}})
		default:
			open.kind, open.fixed = notes, true
			open.lines = append(open.lines, line{i + 1, text[len(marker):]})
		}
	}
	end()
	return done
}
