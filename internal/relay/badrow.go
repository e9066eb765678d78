package relay

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Policy is the treatment of a bad row: one that cannot be published as it is. The words are the configuration's.
type Policy string

// The policies.
const (
	Halt       Policy = "halt"        // stop at the row, stay alive and not ready until an operator decides
	DeadLetter Policy = "dead_letter" // write it to the dead-letter topic and continue
	Skip       Policy = "skip"        // count it, log it by id and position, and continue
)

// Policies are the policies by the row's fault.
type Policies struct {
	Default Policy                  // empty: Halt
	Groups  map[router.Group]Policy // for groups with a policy of their own
}

// For is the policy for a reason.
func (p Policies) For(reason router.Reason) Policy { return p.Of(reason.Group()) }

// Of is the policy for a group of reasons.
func (p Policies) Of(g router.Group) Policy { return cmp.Or(p.Groups[g], p.Default, Halt) }

// HaltedRow is a row at which a source halts.
type HaltedRow struct {
	Table    string    `json:"table,omitempty"` // if rows are polled
	Position string    `json:"position"`        // commit LSN and index within the transaction, or the sequence number
	LSN      string    `json:"lsn,omitempty"`   // commit LSN as Postgres prints it, if rows come from the log
	EventID  string    `json:"event_id"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Next     string    `json:"next"`
	Commands []string  `json:"commands,omitempty"` // to paste for the next step
	Since    time.Time `json:"since"`
}

// Remedy returns the next step.
func (h *HaltedRow) Remedy() fault.Remedy { return fault.Remedy{Next: h.Next, Commands: h.Commands} }

const (
	keptBadRows = 20  // rows
	clippedIDs  = 200 // bytes of an id or a topic: a row may hold any text there
)

// BadRow is a row that was dead-lettered or skipped, for /status. It names the row and holds nothing of it.
type BadRow struct {
	EventID string    `json:"event_id"`
	Type    string    `json:"event_type,omitempty"` // if it is known
	Action  Policy    `json:"action"`               // dead_letter or skip
	Reason  string    `json:"reason"`               // one word of a closed list
	Topic   string    `json:"topic,omitempty"`      // the topic it was meant for, if any
	LSN     string    `json:"lsn"`                  // of its commit
	At      time.Time `json:"at"`
}

// BadRows keeps the latest bad rows. The dead-letter topic has them all; these are for people who look right now.
type BadRows struct {
	mu   sync.Mutex
	rows []BadRow // the oldest first
}

// Add keeps a row and drops the oldest one if there are enough.
func (b *BadRows) Add(row BadRow) {
	row.EventID, row.Type, row.Topic = clipped(row.EventID), clipped(row.Type), clipped(row.Topic)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows) == keptBadRows {
		b.rows = slices.Delete(b.rows, 0, 1)
	}
	b.rows = append(b.rows, row)
}

// Latest lists them, the latest first.
func (b *BadRows) Latest() []BadRow {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.rows)
	slices.Reverse(all)
	return append([]BadRow{}, all...) // in JSON an empty list, not null
}

// clipped is a copy that keeps nothing else of the row in memory.
func clipped(text string) string {
	if len(text) <= clippedIDs {
		return strings.Clone(text)
	}
	cut := clippedIDs
	for cut > clippedIDs-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// Decision is an operator's decision about one halted row.
type Decision struct {
	ID       int64
	Position string
	EventID  string
	Action   Policy // DeadLetter or Skip
	By       string
	Reason   string
}

// Of reports whether the decision is about the row. No other row has the same position.
func (d *Decision) Of(position, eventID string) bool {
	return d.Position == position && d.EventID == eventID
}

// Passable reports whether an operator may pass it: a change of the outbox is not a row.
func (h *HaltedRow) Passable() bool {
	return h.Position != "" && h.Reason != "update" && h.Reason != "truncate"
}
