package kafka

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/internal/lsn"
)

// Stored is a position as a committed transaction left it.
type Stored struct {
	Position
	SystemID string // of the Postgres cluster
	Instance string // who wrote it
}

// metadata is the JSON that is committed with a transaction. The number makes it unlike any other.
func (x *transactions) metadata(pos Position) string {
	text, _ := json.Marshal(storedJSON{ // strings and numbers: cannot fail
		System: x.owner.SystemID, Timeline: pos.Timeline, Commit: fmt.Sprintf("%016x", uint64(pos.Commit)),
		Index:    pos.Index,
		Instance: x.cfg.Instance, Transaction: x.count,
	})
	return string(text)
}

type storedJSON struct {
	System      string `json:"system"`
	Timeline    int32  `json:"timeline"`
	Commit      string `json:"commit"` // hexadecimal: JSON readers round large numbers
	Index       uint32 `json:"index"`
	Instance    string `json:"instance"`
	Transaction uint64 `json:"transaction"`
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
	return Stored{
		Position: Position{j.Timeline, lsn.Position{Commit: lsn.LSN(commit), Index: j.Index}},
		SystemID: j.System, Instance: j.Instance,
	}, nil
}
