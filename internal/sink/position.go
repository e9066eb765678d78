package sink

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// Owner says whose records these are.
type Owner struct {
	// ID is one for all instances that relay a slot, and no other program's: Kafka's transactional id, and the consumer
	// group of the position.
	ID string

	// SystemID is the Postgres cluster's, stored with the position.
	SystemID string
}

// SlotOwner is the owner of the records of a slot.
func SlotOwner(systemID, slot string) Owner {
	return Owner{ID: fmt.Sprintf("cdc-outbox.%s.%s", systemID, slot), SystemID: systemID}
}

// Position is a record's place in the source's log: everything up to and including it is covered.
type Position struct {
	Timeline int32
	lsn.Position

	// XID and Time are the transaction's at the position. In the log of a server that was put back to an older state,
	// another transaction is there, or none. XID is 0 where there is no transaction.
	XID  uint32
	Time time.Time
}

// Stored is a position as a committed transaction left it, and what is kept about the checkpoint. Without transactions
// there is no position: a commit record at 0 covers nothing.
type Stored struct {
	Position
	SystemID string // of the Postgres cluster
	Instance string // who wrote it
	Mark     Mark
}

// Mark is the record, kept in Kafka, of one write of the checkpoint: by the number of writes, which only grows, a
// server that was put back to an older state shows.
type Mark struct {
	Timeline  int32
	Writes    int64   // 0: none is kept
	Position  lsn.LSN // of the checkpoint
	Published lsn.LSN // the highest commit record of which events may be in Kafka
	At        time.Time
}

// Text is the JSON form of the position. The number of the transaction makes it unlike any other.
func (s Stored) Text(transaction uint64) string {
	j := storedJSON{
		System: s.SystemID, Timeline: s.Timeline, Commit: hexadecimal(s.Commit), Index: s.Index, Instance: s.Instance,
		Transaction: transaction, XID: s.XID,
	}
	if s.XID != 0 {
		at := s.Time.UTC()
		j.Time = &at
	}
	if s.Mark.Writes > 0 {
		j.Mark = &markJSON{
			Timeline: s.Mark.Timeline, Writes: s.Mark.Writes, Position: hexadecimal(s.Mark.Position),
			Published: hexadecimal(s.Mark.Published), At: s.Mark.At.UTC(),
		}
	}
	text, _ := json.Marshal(j) // strings and numbers: cannot fail
	return string(text)
}

func hexadecimal(at lsn.LSN) string { return fmt.Sprintf("%016x", uint64(at)) }

type storedJSON struct {
	System      string `json:"system"`
	Timeline    int32  `json:"timeline"`
	Commit      string `json:"commit"` // hexadecimal: JSON readers round large numbers
	Index       uint32 `json:"index"`
	Instance    string `json:"instance"`
	Transaction uint64 `json:"transaction"`
	// of the transaction at the position; earlier versions did not keep them
	XID  uint32     `json:"xid,omitempty"`
	Time *time.Time `json:"committed,omitempty"`

	Mark *markJSON `json:"checkpoint,omitempty"`
}

type markJSON struct {
	Timeline  int32     `json:"timeline"`
	Writes    int64     `json:"writes"`
	Position  string    `json:"position"`
	Published string    `json:"published"`
	At        time.Time `json:"at"`
}

// ParseStored reads the form that Text returns.
func ParseStored(text string) (Stored, error) {
	var j storedJSON
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return Stored{}, err
	}
	commit, err := strconv.ParseUint(j.Commit, 16, 64)
	if err != nil {
		return Stored{}, err
	}
	s := Stored{
		Position: Position{Timeline: j.Timeline, Position: lsn.Position{Commit: lsn.LSN(commit), Index: j.Index}},
		SystemID: j.System, Instance: j.Instance,
	}
	if j.Time != nil {
		s.XID, s.Time = j.XID, *j.Time
	}
	if j.Mark == nil {
		return s, nil
	}
	position, err := strconv.ParseUint(j.Mark.Position, 16, 64)
	if err != nil {
		return Stored{}, err
	}
	published, err := strconv.ParseUint(j.Mark.Published, 16, 64)
	if err != nil {
		return Stored{}, err
	}
	s.Mark = Mark{
		Timeline: j.Mark.Timeline, Writes: j.Mark.Writes, Position: lsn.LSN(position), Published: lsn.LSN(published),
		At: j.Mark.At,
	}
	return s, nil
}
