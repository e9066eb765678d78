package walsender

import (
	"slices"
	"time"
)

// Row is one event.
type Row struct {
	ID, Topic, Key string

	Hidden bool // it was written while the publication did not have it
}

// Txn is a committed transaction. Its commit record starts at Commit; End is where the next record starts.
type Txn struct {
	XID         uint32
	Commit, End LSN
	At          time.Time
	Rows        []Row

	Began    LSN // where the log ended when it took its number
	BeganAt  time.Time
	relation uint32 // of the table
}

// hidden reports whether none of the rows is published.
func (t *Txn) hidden() bool {
	return len(t.Rows) > 0 && !slices.ContainsFunc(t.Rows, func(r Row) bool { return !r.Hidden })
}

// Slot is the replication slot.
type Slot struct {
	Name      string
	Confirmed LSN
	saved     LSN // on disk: what a restart brings back before 17
	Restart   LSN
}

// State is all that a snapshot of the disk holds.
type State struct {
	Timeline int32
	Past     []Switch
	End      LSN // of the log
	Log      []Txn
	Slot     Slot
	Table    map[string]map[string]string // the checkpoint's rows by slot
	Catalog  Catalog
	Gaps     []Gap // the table of gaps
	xid      uint32
}

func (s *State) clone() State {
	c := *s
	c.Log = slices.Clone(s.Log)
	c.Table, c.Catalog, c.Gaps = cloneTable(s.Table), s.Catalog.clone(), slices.Clone(s.Gaps)
	return c
}
