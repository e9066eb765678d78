package kafka

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

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

// metadata is the JSON that is committed with a transaction. The number makes it unlike any other.
func (x *transactions) metadata(pos Position) string {
	return Stored{
		Position: pos, SystemID: x.owner.SystemID, Instance: x.cfg.Instance, Mark: x.mark,
	}.text(x.count)
}

func (s Stored) text(transaction uint64) string {
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

func parseStored(text string) (Stored, error) {
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

// notAPosition: something else commits offsets for the group. To go on would be to repeat, or to skip, at random.
func notAPosition(cluster *wire.Cluster, group, topic string, err error) error {
	return &fault.Error{
		Kind: fault.Operator, Object: groupObject(group, topic),
		Err: fmt.Errorf("the offset's metadata is not a position: %w", err),
		Next: "Find out which other program commits offsets for this group and stop it, then delete the offsets. " +
			"Records since the slot's position are then sent again.",
		Commands: []string{cluster.Command("kafka-consumer-groups",
			"--delete-offsets --group "+group+" --topic "+topic)},
	}
}

// groupObject names where a position is kept.
func groupObject(group, topic string) string { return fmt.Sprintf("group %q, topic %q", group, topic) }
