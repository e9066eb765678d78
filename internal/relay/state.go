package relay

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// StateName is a source's present activity.
type StateName string

// The states. A source has the states that it can be in.
const (
	Starting  StateName = "starting"  // connecting for the first time
	Streaming StateName = "streaming" // reading the slot
	Polling   StateName = "polling"   // reading the table
	// another process holds the slot; takes over when that process releases it
	WaitingForSlot StateName = "standby"
	Reconnecting   StateName = "reconnecting" // the connection to Postgres broke; a new one is being opened
	Halted         StateName = "halted"       // at a row that cannot be published
	Snapshotting   StateName = "snapshot"     // publishing the rows that were there before the slot
	Paused         StateName = "paused"       // an operator asked it to read no more
	Draining       StateName = "draining"     // asked to stop; waits for acknowledgements
	Stopped        StateName = "stopped"
	NeedsOperator  StateName = "needs_operator" // stopped by an error; the process stays and looks again
	NotRunning     StateName = "not_running"    // nothing answers; no source says so of itself
)

// Pause is an operator's wish that the relay reads no more, or that it is not known whether there is such a wish.
type Pause struct {
	By     string
	Reason string
	Since  time.Time
	Unread error // why it is not known; nil: it is known
}

// Unread begins the reason of a relay that reads nothing, since it cannot look up whether it is paused.
const Unread = "operators' decisions cannot be read, and one of them may be a pause: "

// State is the relay's state while the pause lasts.
func (p *Pause) State() State {
	if p.Unread != nil {
		why, remedy := fault.Split(p.Unread)
		return State{
			Name: Starting, Reason: Unread + why, Next: remedy.Next, Commands: remedy.Commands, Since: p.Since,
		}
	}
	return State{
		Name: Paused, Reason: "paused by " + p.By + ": " + p.Reason, Next: "Resume when the reason no longer exists.",
		Commands: []string{"cdc-outbox resume"}, Since: p.Since,
	}
}

// Reads reports whether a source in this state knows the rows that are committed and not confirmed.
func (n StateName) Reads() bool {
	switch n {
	case Streaming, Polling, Halted, Snapshotting, Paused, Draining:
		return true
	}
	return false
}

// State is a StateName with its reason.
type State struct {
	Name     StateName `json:"name"`
	Reason   string    `json:"reason,omitempty"`   // one sentence
	Next     string    `json:"next,omitempty"`     // the next step for a person, if there is one
	Commands []string  `json:"commands,omitempty"` // to paste for it
	Since    time.Time `json:"since"`
}

// Remedy returns the next step.
func (s State) Remedy() fault.Remedy { return fault.Remedy{Next: s.Next, Commands: s.Commands} }

// To is the state after s when next is entered at now. It keeps the time of the first entry, and after Draining only
// Stopped follows. Entering a state again without a reason keeps the reason: connecting again does not undo the last
// failure.
func (s State) To(next State, now time.Time) State {
	if s.Name == Draining && next.Name != Stopped {
		return s
	}
	if next.Since.IsZero() {
		next.Since = now
	}
	if next.Name == s.Name {
		next.Since = s.Since
		if next.Reason == "" {
			next.Reason, next.Next, next.Commands = s.Reason, s.Next, s.Commands
		}
	}
	return next
}

// Window is the in-flight window: the records that were read and are not acknowledged.
type Window struct {
	Records    int   `json:"records"`
	Bytes      int64 `json:"bytes"`
	MaxRecords int   `json:"max_records"`
	MaxBytes   int64 `json:"max_bytes"`
}

// Counts are totals since the process started.
type Counts struct {
	Published    uint64 `json:"published"`
	Skipped      uint64 `json:"skipped"`       // bad rows skipped by policy
	DeadLettered uint64 `json:"dead_lettered"` // bad rows sent to the dead-letter topic
}

// OpenTx is the transaction whose commit has not been read yet.
type OpenTx struct {
	CommitLSN string `json:"commit_lsn"`
	Rows      int    `json:"rows"` // so far
}
