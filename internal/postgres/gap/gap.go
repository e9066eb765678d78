package gap

import (
	"fmt"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// The causes of gaps. They are values of a field of /status, so names stay.
const (
	PublicationChanged = "publication_changed" // rows may have been hidden by a change that was undone since
	Unpublished        = "unpublished"         // rows were hidden by what a check has seen
	SlotRemade         = "slot_remade"         // the slot, or its checkpoint, no longer existed at a start
	SlotRecreated      = "slot_recreated"      // by `slot recreate`
	SlotAdvanced       = "slot_advanced"       // by `slot advance`
	SlotAccepted       = "slot_accepted"       // by `slot accept`: something else had moved it
	KafkaReplaced      = "kafka_replaced"      // another Kafka cluster answers
	KafkaLost          = "kafka_lost"          // acknowledged records are no longer in their partitions
)

// Gap is a stretch of the log whose rows may be missing from Kafka.
type Gap struct {
	ID       int64      `json:"id"`
	Cause    string     `json:"cause"`
	What     string     `json:"what"`               // the cause, as a clause
	FromLSN  string     `json:"from_lsn,omitempty"` // empty: not known, so from the beginning
	FromAt   *time.Time `json:"from_at,omitempty"`  // nil: not known, so from the beginning
	ToLSN    string     `json:"to_lsn,omitempty"`   // empty: rows are still being hidden
	ToAt     *time.Time `json:"to_at,omitempty"`
	SystemID string     `json:"system_id"` // of the cluster whose positions these are
	FoundAt  time.Time  `json:"found_at"`
	FoundBy  string     `json:"found_by"` // the session's user

	SettledAt  *time.Time `json:"settled_at,omitempty"`
	SettledBy  string     `json:"settled_by,omitempty"`
	SettledHow string     `json:"settled_how,omitempty"` // repaired, dismissed or dropped
	Missing    *int64     `json:"missing,omitempty"`     // rows that the repair that settled it did not find in Kafka
	Published  *int64     `json:"published,omitempty"`   // by that repair
	Reason     string     `json:"reason,omitempty"`      // of a dismissal
}

// Before is how much earlier than its transaction took its number a row's time may be.
const Before = time.Hour

// Earliest is when the first of the gaps began. unknown is a gap of which that is not known, nil if there is none: then
// every row may be one of it.
func Earliest(gaps []Gap) (from time.Time, unknown *Gap) {
	for i := range gaps {
		switch g := &gaps[i]; {
		case g.FromAt == nil && unknown == nil:
			unknown = g
		case g.FromAt != nil && (from.IsZero() || g.FromAt.Before(from)):
			from = *g.FromAt
		}
	}
	return from, unknown
}

// Lasts reports whether rows are still being hidden, so that nothing can settle the gap yet.
func (g *Gap) Lasts() bool { return g.ToLSN == "" }

// Sentence says which events may be missing, and why.
func (g *Gap) Sentence() string {
	from, to := "an unknown position", "now on, until it is put right"
	if g.FromLSN != "" {
		from = g.FromLSN
	}
	if g.FromAt != nil {
		from += " (" + human.Time(*g.FromAt) + ")"
	}
	if !g.Lasts() {
		to = g.ToLSN
		if g.ToAt != nil {
			to += " (" + human.Time(*g.ToAt) + ")"
		}
	}
	return fmt.Sprintf("Gap %d: events committed between %s and %s may be missing from Kafka: %s.", g.ID, from, to,
		g.What)
}

// Summary says which events may be missing by the open gaps.
func Summary(open []Gap) string {
	text := open[0].Sentence()
	if more := len(open) - 1; more > 0 {
		text += fmt.Sprintf(" And %s.", human.Counted(more, "more gap", "more gaps"))
	}
	return text
}

// Hiding reports whether one of the gaps lasts: rows that are committed now are hidden, too.
func Hiding(open []Gap) bool {
	return slices.ContainsFunc(open, func(g Gap) bool { return g.Lasts() })
}

// Remedy is the next step.
func Remedy(open []Gap) fault.Remedy {
	if Hiding(open) {
		return fault.Do("Put right what hides rows, then publish from the table what Kafka does not have. That "+
			"settles the gap.", "cdc-outbox check", "cdc-outbox repair")
	}
	return fault.Do(fmt.Sprintf("Publish from the table what Kafka does not have: that settles the gap, also if "+
		"nothing is missing. Where the table does not have the rows any more, or the loss is accepted, dismiss it: "+
		"`cdc-outbox repair --dismiss %d --reason \"...\"`.", open[0].ID),
		"cdc-outbox repair --dry-run", "cdc-outbox repair")
}
