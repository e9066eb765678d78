package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
)

// TestStatusLine: the line never wraps, and gives way to whatever else is printed.
func TestStatusLine(t *testing.T) {
	var screen bytes.Buffer
	a := &app{stdout: &screen, stderr: &screen}
	l := drawOn(a, 10)
	l.draw("0123456789abc")
	l.draw("short")
	fmt.Fprintln(a.stdout, "result")
	fmt.Fprintln(a.stderr, "error")
	l.draw("again")
	require.Equal(t, eraseLine+"012345678"+eraseLine+"short"+eraseLine+"result\nerror\n"+eraseLine+"again",
		screen.String())
}

// TestStepsInALog: the first step is a line, the next one comes after a while; what is done at once is none.
func TestStepsInALog(t *testing.T) {
	var log bytes.Buffer
	a := &app{stderr: &log}
	a.progress().Step(progress.Step{What: "t", Done: 3, Total: 3, Unit: "rows"})
	require.Empty(t, log.String())
	p := a.progress()
	for n := range int64(1000) {
		p.Step(progress.Step{What: "t\x1b[31m", Done: n + 1, Total: 1000, Unit: "rows"})
	}
	require.Equal(t, "t\ufffd[31m: 1 of 1,000 rows (0 %)\n", log.String())
}

// TestAStatusLineHidesNoTerminal: what decides about colours and width sees the file under the line, and a second
// reporter draws on the same line.
//
// Bug (monitor): `check` lost its colours and its wrapping on a terminal: the line that shows progress hid the terminal
// from what asks for it. Cost: text that is hard to read.
func TestAStatusLineHidesNoTerminal(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer out.Close()
	a := &app{stdout: out, stderr: out}
	l := drawOn(a, 10)
	require.Same(t, l, drawOn(a, 10))
	for _, stream := range []io.Writer{a.stdout, a.stderr} {
		f, ok := fileOf(stream)
		require.True(t, ok)
		require.Same(t, out, f)
	}
}
