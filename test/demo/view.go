package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// view shows the demo while it runs: redrawn in place on a terminal, otherwise a line every two seconds.
type view struct {
	out      *os.File
	tty      bool
	interval time.Duration
	duration time.Duration // of writing; 0: open

	mu     sync.Mutex
	lines  int // of the block on the screen
	footer string
	began  time.Time // of the first frame
	drawn  time.Time // of the last frame
	last   frame
}

// frame is one sample of everything.
type frame struct {
	writing writing
	relay   relayStatus
	reading reading
	recent  latency
	wal     wal
}

func newView(out *os.File, duration time.Duration) *view {
	v := &view{
		out: out, duration: duration, interval: 2 * time.Second,
		footer: "Ctrl-C stops the writers and shows the summary.",
	}
	if v.tty = term.IsTerminal(int(out.Fd())); v.tty {
		v.interval = 250 * time.Millisecond
	}
	return v
}

// step prints a line about the preparation.
func (v *view) step(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintln(v.out, text)
}

// note says what happens now.
func (v *view) note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.footer = text
	if !v.tty {
		fmt.Fprintln(v.out, text)
	}
}

func (v *view) draw(f frame) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if v.began.IsZero() {
		v.began = now.Add(-v.interval)
		v.drawn = v.began
	}
	seconds := now.Sub(v.drawn).Seconds()
	if v.tty {
		v.redraw(v.block(f, now.Sub(v.began), seconds))
	} else {
		fmt.Fprintln(v.out, line(f, now.Sub(v.began)))
	}
	v.drawn, v.last = now, f
}

func line(f frame, since time.Duration) string {
	return fmt.Sprintf("%5s  committed %s  published %s  consumed %s  rolled back %s  duplicates %d  out of order "+
		"%d  commit->consumer p50 %s p99 %s  retained WAL %s, unconfirmed %s",
		since.Round(time.Second), number(f.writing.committed), number(f.relay.Counts.Published),
		number(f.reading.consumed), number(f.writing.rolledBack),
		f.reading.duplicates, f.reading.disorder, millis(f.recent.p50), millis(f.recent.p99), size(f.wal.retained),
		size(f.wal.unconfirmed)) + trouble(f)
}

func (v *view) block(f frame, since time.Duration, seconds float64) []string {
	rate := func(now, before uint64) string {
		return fmt.Sprintf("%5.0f/s", float64(now-min(before, now))/max(seconds, 0.001))
	}
	row := func(name, figure, rate, note string) string {
		return strings.TrimRight(fmt.Sprintf("  %-13s %12s %9s   %s", name, figure, rate, note), " ")
	}
	of := ""
	if v.duration > 0 {
		of = " of " + v.duration.String()
	}
	return []string{
		"",
		row("committed", number(f.writing.committed), rate(f.writing.committed, v.last.writing.committed),
			fmt.Sprintf("events in %s transactions; %s more rolled back", number(f.writing.transactions),
				number(f.writing.rolledBack))),
		row("published", number(f.relay.Counts.Published),
			rate(f.relay.Counts.Published, v.last.relay.Counts.Published),
			"acknowledged by Kafka; cdc-outbox is "+f.relay.State.Name),
		row("consumed", number(f.reading.consumed), rate(f.reading.consumed, v.last.reading.consumed),
			fmt.Sprintf("duplicates %d, out of order %d, rolled back %d", f.reading.duplicates, f.reading.disorder,
				f.reading.phantoms)),
		row("latency", "", "", fmt.Sprintf("commit -> consumer: p50 %s  p95 %s  p99 %s", millis(f.recent.p50),
			millis(f.recent.p95), millis(f.recent.p99))),
		row("retained WAL", size(f.wal.retained), "",
			fmt.Sprintf("held back by the slot; %s not confirmed", size(f.wal.unconfirmed))),
		trouble(f),
		fmt.Sprintf("  %s%s   %s", since.Round(time.Second), of, v.footer),
	}
}

// redraw replaces the block that is on the screen. Lines are cut at the width, as one that wraps would shift the rest.
func (v *view) redraw(lines []string) {
	width, _, err := term.GetSize(int(v.out.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	var b strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.lines)
	}
	for _, l := range lines {
		b.WriteString("\x1b[2K")
		if r := []rune(l); len(r) >= width {
			l = string(r[:width-1])
		}
		b.WriteString(l)
		b.WriteByte('\n')
	}
	v.lines = len(lines)
	fmt.Fprint(v.out, b.String())
}

// trouble is what the connector waits for, if anything.
func trouble(f frame) string {
	if len(f.relay.Waits) == 0 {
		return ""
	}
	return "  waits for " + f.relay.Waits[0].Object + ": " + f.relay.Waits[0].Reason
}

// number prints thousands apart.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
