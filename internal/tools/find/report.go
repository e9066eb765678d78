package find

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/absence"
)

// Report is the result of a search for an event, or for the events of a key.
type Report struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`

	Verdict  Verdict  `json:"verdict"`
	Sentence string   `json:"sentence"`
	Next     string   `json:"next,omitempty"`
	Commands []string `json:"commands,omitempty"`

	Rows      []Row               `json:"rows"`
	Records   []Record            `json:"records"` // the earlier first
	More      int64               `json:"more"`    // further records with the key, before the listed records
	Letters   []*deadletter.Entry `json:"dead_letters"`
	Compacted bool                `json:"compacted,omitempty"`     // the topic in which the event is missing
	Newer     *Record             `json:"superseded_by,omitempty"` // the last record of its key there
	Slot      *Slot               `json:"slot"`                    // nil: not known, or rows are polled
	Gaps      []gap.Gap           `json:"gaps,omitempty"`          // the open ones
	Kafka     Searched            `json:"kafka"`
	Complete  bool                `json:"complete"`             // all of Kafka that could hold it was searched
	NotLooked []string            `json:"not_looked,omitempty"` // places that could not be asked, and why

	names    sink.Names
	replays  bool             // Options.Replays
	searched int64            // atomic
	unread   error            // why a table could not be read; nil: all were
	removed  *absence.Removal // among which the record may have been; nil: it was not
}

// Remedy returns the next step.
func (r *Report) Remedy() fault.Remedy { return fault.Remedy{Next: r.Next, Commands: r.Commands} }

// Row is a row of an outbox table.
type Row struct {
	Table     string     `json:"table"`
	EventID   string     `json:"event_id"`
	Topic     string     `json:"topic,omitempty"`
	Key       string     `json:"key,omitempty"`
	Timestamp *time.Time `json:"timestamp,omitempty"` // of its record
	Bad       string     `json:"bad,omitempty"`       // why it cannot become a record
	Policy    string     `json:"policy,omitempty"`    // the relay's policy for a bad one
	InKafka   bool       `json:"in_kafka"`

	key       []byte
	partition int32 // -1: chosen by the key
	untimed   bool  // the timestamp is of the search, since the row has none
}

// Record is a record in Kafka.
type Record struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Timestamp time.Time `json:"timestamp"`
	EventID   string    `json:"event_id,omitempty"`
	Position  string    `json:"position,omitempty"`
	Confirmed *bool     `json:"confirmed,omitempty"` // the slot is past it; nil: not known
	Replayed  string    `json:"replayed,omitempty"`  // the run of replay or repair that published it
}

// Slot is how far the relay has got.
type Slot struct {
	Name      string `json:"name"`
	Active    bool   `json:"active"`
	Confirmed string `json:"confirmed_flush_lsn"`
	// Passed: the slot has confirmed the log up to a point at which the rows were already there
	Passed           bool  `json:"passed"`
	UnconfirmedBytes int64 `json:"unconfirmed_wal_bytes"`

	confirmed lsn.LSN // 0: none
}

// Searched is the part of Kafka that was searched.
type Searched struct {
	Topics  []string  `json:"topics"`
	Records int64     `json:"records"` // offsets
	Since   time.Time `json:"since,omitzero"`
}
