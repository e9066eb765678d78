package decision

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// Kind is the kind of a row of the table.
type Kind string

// The kinds.
const (
	Halted Kind = "halted" // the relay is halted at a row; written by the relay
	Pass   Kind = "pass"   // this row is to be passed; written by an operator
	Pause  Kind = "pause"  // the relay is to read no more
	Resume Kind = "resume" // the relay is to go on
)

// Decision is a row of the table.
type Decision struct {
	ID       int64        `json:"id"`
	Kind     Kind         `json:"kind"`
	Position string       `json:"position,omitempty"` // of the row
	EventID  string       `json:"event_id,omitempty"` // of the row
	Action   relay.Policy `json:"action,omitempty"`   // dead_letter or skip
	Reason   string       `json:"reason"`             // why, in the operator's words, or the row's fault
	At       time.Time    `json:"at"`
	By       string       `json:"by"`   // the session's user
	From     string       `json:"from"` // the user and host of the operating system

	TakenAt  *time.Time `json:"taken_at,omitempty"`
	TakenBy  string     `json:"taken_by,omitempty"` // the process
	TakenLSN string     `json:"taken_at_lsn,omitempty"`
	ClosedAt *time.Time `json:"closed_at,omitempty"` // confirmed, or no longer in effect

	idle time.Duration // since it was taken up, or made; of a halted row since it was last seen. The server's clock
}

// Of reports whether the decision is about the row.
func (d *Decision) Of(position, eventID string) bool {
	return d.Kind == Pass && d.Position == position && d.EventID == eventID
}

// Relayed is the decision for the relay.
func (d *Decision) Relayed() relay.Decision {
	return relay.Decision{
		ID: d.ID, Position: d.Position, EventID: d.EventID, Action: d.Action,
		By: d.By + " (" + d.From + ")", Reason: d.Reason,
	}
}

// Line describes the decision on one line.
func (d *Decision) Line() string {
	at := d.At.UTC().Format(time.RFC3339)
	if d.Kind == Halted && d.Position == "" {
		return fmt.Sprintf("%s  waits, and cannot be passed while it runs: %s", at, d.Reason)
	}
	if d.Kind == Halted {
		return fmt.Sprintf("%s  halted at event %s, position %s: %s", at, d.EventID, d.Position, d.Reason)
	}
	what := string(d.Kind)
	if d.Kind == Pass {
		what = fmt.Sprintf("%s event %s, position %s", d.Action, d.EventID, d.Position)
	}
	line := fmt.Sprintf("%s  %s, by %s (%s): %s; ", at, what, d.By, d.From, d.Reason)
	switch {
	case d.TakenAt == nil && d.ClosedAt != nil:
		return line + "closed without being needed"
	case d.TakenAt == nil:
		return line + "not taken up yet"
	}
	line += fmt.Sprintf("taken up %s by %s", d.TakenAt.UTC().Format(time.RFC3339), d.TakenBy)
	if d.TakenLSN != "" { // rows that are polled have no LSN
		line += " at " + d.TakenLSN
	}
	if d.ClosedAt != nil && d.Kind == Pass {
		line += ", confirmed"
	}
	return line
}
