package console

import (
	"strings"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Style is how a stream shows text. The zero value is for a file or a pipe.
type Style struct {
	Colour bool
	Width  int // columns to wrap at; 0: lines stay whole, so that they can be searched
}

// Tint is a colour (ANSI).
type Tint string

// The colours.
const (
	Red    Tint = "\x1b[31m"
	Green  Tint = "\x1b[32m"
	Yellow Tint = "\x1b[33m"
	Grey   Tint = "\x1b[90m"
)

// Paint colours a text if the stream has colours.
func (s Style) Paint(t Tint, text string) string {
	if !s.Colour {
		return text
	}
	return string(t) + text + "\x1b[0m"
}

// indent is in front of lines that belong to the line above.
const indent = "    "

// Paragraph writes a text, of several lines perhaps, below its label.
func (s Style) Paragraph(b *strings.Builder, label, text string) {
	if text == "" {
		return
	}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		s.Line(b, indent+label, utf8.RuneCountInString(indent+label), fault.Printable(line))
	}
}

// Remedy writes a remedy like a paragraph, each command on a line of its own. A command is never wrapped: it is there
// to be pasted.
func (s Style) Remedy(b *strings.Builder, label string, r fault.Remedy) {
	for i, line := range r.Lines() {
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		if i == 0 && r.Next != "" {
			s.Line(b, indent+label, utf8.RuneCountInString(indent+label), fault.Printable(line))
			continue
		}
		b.WriteString(indent + label + fault.Printable(line) + "\n")
	}
}

// Line writes a line after a prefix that takes so many columns, and the rest of the line below its beginning.
func (s Style) Line(b *strings.Builder, prefix string, columns int, line string) {
	hang := strings.Repeat(" ", columns)
	room := s.Width - columns
	if s.Width == 0 || room < 20 {
		b.WriteString(prefix + line + "\n")
		return
	}
	for {
		head, rest := cut(line, room)
		b.WriteString(prefix + head + "\n")
		if rest == "" {
			return
		}
		prefix, line = hang, rest
	}
}

// cut divides a line at the last space within room, or at the first one if a word is longer.
func cut(line string, room int) (head, rest string) {
	if utf8.RuneCountInString(line) <= room {
		return line, ""
	}
	at, column := -1, 0
	for i, r := range line {
		if r == ' ' && i > 0 && (column <= room || at < 0) {
			at = i
		}
		if column > room && at >= 0 {
			break
		}
		column++
	}
	if at < 0 {
		return line, ""
	}
	return line[:at], strings.TrimLeft(line[at:], " ")
}
