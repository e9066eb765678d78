package alert

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Blind is the alert that the server does not answer its monitor.
const Blind = "monitor_blind"

// Finding is the verdict of a rule at one check. One that is OK is a finding, too: without any finding an alert stays
// as it was, because nothing is known of it.
type Finding struct {
	Alert    string
	Subject  string // the name of a slot; empty: the process as a whole
	Level    Level
	Sentence string
	// Cause is the fact's own cause, if it has one. Otherwise it is its subject's; see Attribute.
	Cause Cause
}

// Alert is a rule that fires.
type Alert struct {
	Rule     string `json:"alert"`
	Level    Level  `json:"level"`
	Sentence string `json:"sentence"`
}

// FiringAlert is an alert that fires, with its subject and its beginning.
type FiringAlert struct {
	Alert
	Subject string    `json:"slot,omitempty"` // see Finding
	Since   time.Time `json:"since"`
	Cause   Cause     `json:"cause,omitzero"` // as long as it holds: the present one; afterwards the last one
}

// State is the state that an Event reports.
type State string

// The states of an alert.
const (
	Firing   State = "firing"
	Resolved State = "resolved"
)

// Event is a change worth reporting: an alert begins, gets worse or milder, still fires, or has ended.
type Event struct {
	Alert    string
	Subject  string // see Finding
	State    State
	Level    Level // of a resolved alert: its last
	Before   Level // the level reported last; OK at the beginning
	Sentence string
	Since    time.Time // when it began
	At       time.Time
	Repeated bool // nothing has changed since it was reported last
	Lasting  bool // the process that reports it can neither repeat nor resolve it

	SupersededBy string // of a resolved alert: the worse alert about the same subject that fires in its place

	Figures Figures // nil if nothing is known of the subject
	Cause   Cause   // of a resolved alert: its last, which need not be over
}

// Figures are measurements of an event's subject. Receivers of JSON get their exported fields.
type Figures interface {
	LogFields() []zap.Field
}

// Cause is why the subject does not move: the object it waits for, since when, and the operator's next step.
type Cause struct {
	Code     string     `json:"code"`             // one of a closed list of words
	Sentence string     `json:"sentence"`         // with the figures
	Since    *time.Time `json:"since,omitempty"`  // nil: not known
	Object   string     `json:"object,omitempty"` // that it waits for: a pid, a prepared transaction, the slot
	Next     string     `json:"next,omitempty"`   // the next step for a person, a sentence

	Commands []string `json:"commands,omitempty"` // to paste for the next step
}

// With returns the cause with the remedy.
func (c Cause) With(r fault.Remedy) Cause {
	c.Next, c.Commands = r.Next, r.Commands
	return c
}

// Remedy returns the next step.
func (c Cause) Remedy() fault.Remedy { return fault.Remedy{Next: c.Next, Commands: c.Commands} }

// Attribute gives the findings that name no cause of their own the cause of their subject.
func Attribute(found []Finding, of func(subject string) Cause) {
	for i, f := range found {
		if f.Level != OK && f.Cause.Code == "" {
			found[i].Cause = of(f.Subject)
		}
	}
}

// Names are the names of the alerts, each once.
func Names(all []FiringAlert) []string {
	var names []string
	for _, a := range all {
		names = append(names, a.Rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
