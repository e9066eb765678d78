package progress

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// Step is a command's progress in its own units.
type Step struct {
	What        string // the work: a table, "reading Kafka"
	Done, Total int64  // Total 0: not known
	About       bool   // Total is an estimate
	Unit        string // "rows", "rows deleted"
	Place       string // in the work, such as "up to 2026-01-31"
}

// Meter turns steps into lines with rate and time left. It is pure; the zero value is ready.
type Meter struct {
	what  string
	first int64     // done when the meter first saw it
	began time.Time // when
}

// Line describes the step as of now.
func (m *Meter) Line(s Step, now time.Time) string {
	if s.What != m.what || m.began.IsZero() || s.Done < m.first {
		*m = Meter{what: s.What, first: s.Done, began: now}
	}
	rate := 0.0
	if d := now.Sub(m.began); d >= time.Second {
		rate = float64(s.Done-m.first) / d.Seconds()
	}
	line := s.What + ": " + human.Count(s.Done)
	known := s.Total > 0 && s.Done <= s.Total // an estimate that turned out too small says nothing
	if known {
		about := ""
		if s.About {
			about = "about "
		}
		line += " of " + about + human.Count(s.Total)
	}
	line += " " + s.Unit
	if known {
		line += fmt.Sprintf(" (%d %%)", s.Done*100/s.Total)
	}
	if s.Place != "" {
		line += ", " + s.Place
	}
	if rate >= 1 {
		line += ", " + human.Count(int64(rate)) + "/s"
	}
	if known && s.Done < s.Total && rate > 0 {
		left := time.Duration(float64(s.Total-s.Done) / rate * float64(time.Second))
		line += ", " + human.Duration(max(left, time.Second)) + " left"
	}
	return line
}
