package decision

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// View is the relay as decisions are judged by it.
type View struct {
	Holds     bool               // it works: it holds the slot, or polls. A waiting instance takes nothing up
	Waits     bool               // for the slot, which another instance holds
	Halted    []*relay.HaltedRow // the rows at which it is halted
	Confirmed lsn.LSN            // 0: not known, or rows are polled
	// Process is set if several processes work for the relay: each knows only the rows at which it is halted itself.
	// The process lists its rows under this name.
	Process string
}

// Steps are the changes to make.
type Steps struct {
	Pause *Decision // the pause in effect, nil: there is none

	Insert []*relay.HaltedRow // rows to be listed as halted
	Take   []*Decision        // decisions to be marked as taken up, and then applied
	Apply  []*Decision        // decisions about the halted rows, with the decisions in Take
	Close  []int64
	Seen   []int64 // rows that this process has listed, and at which it is still halted
}

// Plan derives the steps from the rows of the table, which are in the order of their ids: all that are open, and the
// decisions about the rows at which the relay is halted.
func Plan(rows []Decision, v View) (s Steps) {
	for i := range rows {
		switch d := &rows[i]; {
		case d.ClosedAt != nil:
		case d.Kind == Pause:
			s.Pause = d
		case d.Kind == Resume:
			s.Pause = nil
		}
	}
	if v.Holds {
		s.switches(rows)
		s.halts(rows, v)
	}
	return s
}

// halted reports whether the relay is halted at the row.
func (v *View) halted(d *Decision) bool {
	return slices.ContainsFunc(v.Halted, func(h *relay.HaltedRow) bool {
		return h.Position == d.Position && h.EventID == d.EventID
	})
}

// halts lists the halted rows, closes rows that are over, and applies the decisions.
func (s *Steps) halts(rows []Decision, v View) {
	listed := map[[2]string]bool{}
	for i := range rows {
		d := &rows[i]
		here := v.halted(d)
		switch {
		case d.ClosedAt != nil:
		case d.Kind == Halted && here && !listed[[2]string{d.Position, d.EventID}]:
			listed[[2]string{d.Position, d.EventID}] = true
			if v.Process != "" && d.From == v.Process && d.idle > seenEvery {
				s.Seen = append(s.Seen, d.ID)
			}
		case d.Kind == Halted, d.Kind == Pass && !here && passed(d.Position, v.Confirmed):
			if v.mayClose(d) {
				s.Close = append(s.Close, d.ID)
			}
		}
	}
	for _, h := range v.Halted {
		if !listed[[2]string{h.Position, h.EventID}] {
			s.Insert = append(s.Insert, h)
		}
		s.applies(rows, h)
	}
}

const (
	// seenEvery is how often a process says that it is still halted at a row, if there are several.
	seenEvery = 20 * time.Second
	// abandoned is the time without that after which a process counts as ended.
	abandoned = time.Minute
)

// mayClose reports whether the row is over for all processes of the relay.
func (v *View) mayClose(d *Decision) bool {
	switch {
	case v.Process == "" || d.idle > abandoned:
		return true
	case d.Kind == Halted:
		return d.From == v.Process
	}
	return d.TakenBy == v.Process
}

// applies finds the decision about a halted row: the last one counts.
func (s *Steps) applies(rows []Decision, h *relay.HaltedRow) {
	for i := len(rows) - 1; i >= 0; i-- {
		d := &rows[i]
		if !d.Of(h.Position, h.EventID) {
			continue
		}
		s.Apply = append(s.Apply, d)
		if d.TakenAt == nil {
			s.Take = append(s.Take, d)
		}
		return
	}
}

// switches takes up pauses and resumptions, and closes decisions no longer in effect.
func (s *Steps) switches(rows []Decision) {
	for i := range rows {
		d := &rows[i]
		if d.ClosedAt != nil || d.Kind != Pause && d.Kind != Resume {
			continue
		}
		if d.TakenAt == nil {
			s.Take = append(s.Take, d)
		}
		if s.Pause == nil || d.ID != s.Pause.ID {
			s.Close = append(s.Close, d.ID)
		}
	}
}

// passed reports whether everything up to the transaction of a position is confirmed. A row that is polled has no such
// position, and is passed as soon as the relay is not halted at it.
func passed(position string, confirmed lsn.LSN) bool {
	commit, _, found := strings.Cut(position, "-")
	n, err := strconv.ParseUint(commit, 16, 64)
	if !found || err != nil || len(commit) != 16 {
		return strings.HasPrefix(position, "seq-")
	}
	return confirmed > lsn.LSN(n)
}
