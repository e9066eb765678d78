package walsender

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Switch is where a timeline ended.
type Switch struct {
	Timeline int32
	At       LSN
}

// standby is a physical standby: how much of the server's log it has flushed. It is worked out when it is asked for,
// so it needs no timers.
type standby struct {
	lag     time.Duration
	absent  int // reasons why it is not connected
	flushed LSN // it may lie within a record
	whole   written
	pending []written // that it has not flushed
	copied  LSN       // of the slot, as a synchronized slot, or as a tool's copy before 17
}

// written is the server's log after a write.
type written struct {
	at    time.Time // when the standby has flushed it
	end   LSN
	part  LSN // what the standby has flushed half of the lag before
	table map[string]map[string]string

	catalog Catalog
	gaps    []Gap
}

func newStandby(lag time.Duration, s *State) *standby {
	b := &standby{lag: lag}
	b.copyFrom(s)
	return b
}

// copyFrom makes it a new copy of the server.
func (b *standby) copyFrom(s *State) {
	b.flushed, b.copied, b.pending = s.End, s.Slot.Confirmed, nil
	b.whole = written{end: s.End, table: cloneTable(s.Table), catalog: s.Catalog.clone(), gaps: slices.Clone(s.Gaps)}
}

func cloneTable(table map[string]map[string]string) map[string]map[string]string {
	c := map[string]map[string]string{}
	for k, row := range table {
		c[k] = maps.Clone(row)
	}
	return c
}

// receive takes note of a write. WAL is sent page by page, so the standby has a part of the last records first.
func (b *standby) receive(s *State) {
	b.advance()
	before := b.whole.end
	if n := len(b.pending); n > 0 {
		before = b.pending[n-1].end
	}
	if s.End == before {
		return
	}
	part := s.End - 24 - 48*(s.End>>4%3)
	b.pending = append(b.pending, written{
		time.Now().Add(b.lag), s.End, max(before, part), cloneTable(s.Table), s.Catalog.clone(), slices.Clone(s.Gaps),
	})
}

// advance works out what it has flushed by now.
func (b *standby) advance() {
	for b.absent == 0 && len(b.pending) > 0 {
		next := b.pending[0]
		left := time.Until(next.at)
		if left > 0 {
			if left <= b.lag/2 {
				b.flushed = max(b.flushed, next.part)
			}
			return
		}
		b.flushed, b.whole, b.pending = next.end, next, b.pending[1:]
	}
}

// DetachStandby ends the standby's connection, or brings it back: then it still has to receive what was written
// meanwhile.
func (s *Server) DetachStandby(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.standby
	b.advance()
	if is {
		b.absent++
		return
	}
	b.absent--
	if b.absent > 0 {
		return
	}
	from := time.Now().Add(b.lag)
	for i := range b.pending {
		if b.pending[i].at.Before(from) {
			b.pending[i].at = from
		}
	}
}

// CopySlot brings the standby's copy of the slot up to date. A copy does not pass what the standby has.
func (s *Server) CopySlot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.standby
	b.advance()
	if b.absent == 0 && s.up && s.state.Slot.Confirmed <= b.flushed {
		b.copied = s.state.Slot.Confirmed
	}
}

// Promote puts the standby in the place of the server, which must be stopped. Its log ends with the last record that it
// has as a whole. It returns the events that it does not have. The next standby is a copy of it.
func (s *Server) Promote() (lost []Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.standby
	b.advance()
	old, end := s.state, b.whole.end
	s.state.xid, s.state.Log = firstXID, nil
	for _, t := range old.Log {
		if t.End > b.flushed {
			lost = append(lost, t.Rows...)
			continue
		}
		s.state.Log = append(s.state.Log, t)
		s.state.xid, end = max(s.state.xid, t.XID), max(end, t.End)
	}
	s.state.Past = append(slices.Clone(old.Past), Switch{old.Timeline, end})
	s.state.Timeline++
	s.state.Table = cloneTable(b.whole.table)
	s.state.Catalog, s.state.Gaps = b.whole.catalog.clone(), slices.Clone(b.whole.gaps)
	s.state.Slot.Confirmed, s.state.Slot.saved, s.state.Slot.Restart = b.copied, b.copied, b.copied
	maps.DeleteFunc(s.told, func(at LSN, _ bool) bool { return at > end })
	s.say("promoted at %s, where the log ended at %s; the slot is at %s; %d events are lost", end, old.End, b.copied,
		len(lost))
	s.state.End = end + endOfRecovery
	b.copyFrom(&s.state)
	return lost
}

const (
	firstXID      = 700
	endOfRecovery = 48 // the length of the record with which a timeline begins
)

// history is the file of the timeline's history.
func history(past []Switch) (file []byte) {
	for _, p := range past {
		file = fmt.Appendf(file, "%d\t%s\tno recovery target specified\n", p.Timeline, p.At)
	}
	return file
}

// lookAtStandbys is the answer to the standby gate.
func (sc *scope) lookAtStandbys() *string {
	s := sc.server
	look := map[string]any{
		"in_recovery": false, "may_see": true, "role": "relay", "inserted": s.state.End.String(),
		"flushed": s.state.End.String(), "sync_names": s.cfg.SyncNames, "held_slots": "", "holder_pid": s.holder,
		"failover": s.standby != nil && s.cfg.Version >= 170000, "senders": nil, "active": nil, "slots": nil,
	}
	if s.standby != nil {
		look["slots"] = []string{"standby"}
	}
	if b := s.standby; b != nil && b.absent == 0 {
		b.advance()
		look["active"] = []string{"standby"}
		look["senders"] = []map[string]any{{
			"name": s.cfg.Standby, "state": "streaming", "flushed": b.flushed.String(), "slot": "standby",
			"logical": false,
		}}
	}
	answer, _ := json.Marshal(look)
	return text(string(answer))
}
