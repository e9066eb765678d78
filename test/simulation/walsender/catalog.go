package walsender

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Catalog is what the server's catalog says about publication and outbox table. It decides which rows are in the
// stream, by what it says at the moment a row is written.
type Catalog struct {
	Version  uint32 // of the publication's row; each change of its options makes another one
	Updates  bool   // publish = 'update': no insert is published
	Entry    uint32 // of the table in the publication, 0 for none; each ADD TABLE makes another one
	Relation uint32 // the table's; each CREATE TABLE makes another one

	// Changes are where the log says that any of them is another one.
	Changes []LSN
	oid     uint32 // the last one that was given away
}

const (
	publicationOID = 16390
	ownerOID       = 10
	firstEntry     = 16410
)

func newCatalog() Catalog {
	return Catalog{Version: firstXID, Entry: firstEntry, Relation: relationOID, oid: firstEntry}
}

func (c *Catalog) clone() Catalog {
	other := *c
	other.Changes = slices.Clone(c.Changes)
	return other
}

// hides reports whether a row that is written now is not published.
func (c *Catalog) hides() bool { return c.Updates || c.Entry == 0 }

// why says by what rows are hidden, empty if none are. The relay reads that out of the catalog by a dozen statements,
// which are not imitated.
func (c *Catalog) why() string {
	switch {
	case c.Entry == 0:
		return "the table is not in the publication"
	case c.Updates:
		return "the publication does not publish inserts"
	}
	return ""
}

func (c *Catalog) another() uint32 {
	c.oid++
	return c.oid
}

// Hiding is a way to hide rows from the stream.
type Hiding int

// The ways.
const (
	TakeOut   Hiding = iota // ALTER PUBLICATION … DROP TABLE
	NoInserts               // ALTER PUBLICATION … SET (publish = 'update')
	MakeAgain               // DROP TABLE, CREATE TABLE: the new one is in no publication
	Hidings                 // how many there are
)

// Hide changes the catalog so that rows are hidden from now on, until Publish.
func (s *Server) Hide(how Hiding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.state.Catalog
	if !s.up || c.hides() || len(s.running) > 0 {
		return
	}
	switch how {
	case NoInserts:
		c.Updates, c.Version = true, c.another()
	case MakeAgain:
		c.Relation, c.Entry = c.another(), 0
	default:
		c.Entry = 0
	}
	s.changed()
}

// Hides reports whether rows are hidden from the stream now.
func (s *Server) Hides() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Catalog.hides()
}

// Publish puts right what hides rows. It reports whether nothing does any more: a server that is down has to be asked
// again.
func (s *Server) Publish() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.state.Catalog
	switch {
	case !c.hides():
		return true
	case !s.up:
		return false
	}
	if c.Updates {
		c.Updates, c.Version = false, c.another()
	}
	if c.Entry == 0 {
		c.Entry = c.another()
	}
	s.changed()
	return true
}

// HideWithin begins a transaction that takes the table out of the publication, writes all rows but the last, puts the
// table back, and writes the last row. Nothing of it is seen before what HideWithin returns commits it.
func (s *Server) HideWithin(rows []Row) (commit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up || s.state.Catalog.hides() || len(s.running) > 0 {
		return func() {}
	}
	s.state.xid++
	xid, life, began, at := s.state.xid, s.lives, s.state.End, time.Now()
	s.running[xid] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lives != life {
			return
		}
		delete(s.running, xid)
		for i := range rows[:len(rows)-1] {
			rows[i].Hidden = true
		}
		c := &s.state.Catalog
		c.Entry = c.another()
		c.Changes = append(c.Changes, s.state.End)
		s.append(rows)
		t := &s.state.Log[len(s.state.Log)-1]
		t.XID, t.Began, t.BeganAt = xid, began, at
	}
}

// changed writes a change of the catalog to the log.
func (s *Server) changed() {
	s.state.Catalog.Changes = append(s.state.Catalog.Changes, s.state.End)
	s.state.End += 400
	s.grow()
}

// evidence is what gap.Evidence reads from the catalog.
func (c *Catalog) evidence() json.RawMessage {
	entries := []string{}
	if c.Entry != 0 {
		entries = append(entries, fmt.Sprintf("table %d", c.Entry))
	}
	text, _ := json.Marshal(map[string]any{
		"publication": publicationOID, "version": strconv.Itoa(int(c.Version)), "owner": ownerOID, "all": false,
		"relations": map[string]any{
			strconv.Itoa(int(c.Relation)): map[string]any{"name": "outbox", "link": "", "entries": entries},
		},
	})
	return text
}
