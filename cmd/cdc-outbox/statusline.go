package main

import (
	"io"
	"sync"

	"golang.org/x/term"
)

// terminalWidth is the number of columns, 0 if the stream is not a terminal.
func terminalWidth(stream io.Writer) int {
	f, ok := fileOf(stream)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// statusLine is the last line of a terminal, drawn again and again. Whatever else the command prints takes its place.
type statusLine struct {
	mu    sync.Mutex
	out   io.Writer
	width int
	drawn bool
}

// drawOn makes the status line of a's stderr, one for all reporters, and lets a's other output clear it first.
func drawOn(a *app, width int) *statusLine {
	if c, ok := a.stderr.(clearing); ok {
		return c.line
	}
	l := &statusLine{out: a.stderr, width: width}
	a.stdout, a.stderr = clearing{a.stdout, l}, clearing{a.stderr, l}
	return l
}

// A terminal goes to the line's start and erases it (ECMA-48: CR, then EL 2).
const eraseLine = "\r\x1b[2K"

func (l *statusLine) draw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if runes := []rune(text); len(runes) >= l.width { // a line that wraps could not be erased
		text = string(runes[:max(l.width-1, 0)])
	}
	_, _ = io.WriteString(l.out, eraseLine+text) // only for people to look at
	l.drawn = true
}

// clearing is a stream whose writes clear the status line.
type clearing struct {
	io.Writer
	line *statusLine
}

func (c clearing) Write(p []byte) (int, error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.line.drawn {
		_, _ = io.WriteString(c.line.out, eraseLine)
		c.line.drawn = false
	}
	return c.Writer.Write(p)
}
