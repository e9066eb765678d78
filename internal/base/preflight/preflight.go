// Package preflight holds the finding that `cdc-outbox check` prints: the subject, the fact found, why it matters and
// how to fix it. The packages that know Postgres and Kafka return findings; the command prints them.
package preflight

import "github.com/cdc-outbox/cdc-outbox/internal/base/fault"

// Level says how bad a finding is.
type Level string

const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, but will hurt later
	Fail Level = "fail" // `run` would not work
)

// Finding is one line of the check's report.
type Finding struct {
	Level   Level  `json:"level"`
	Code    string `json:"code,omitempty"`   // stable, for programs: e.g. "pooler"; not every finding has one yet
	Subject string `json:"subject"`          // e.g. "wal_level", `table public.outbox`
	Found   string `json:"found"`            // the fact found, one sentence
	Why     string `json:"why,omitempty"`    // why it matters; empty for OK
	Remedy  string `json:"remedy,omitempty"` // the next step, one sentence; empty for OK

	Commands []string `json:"commands,omitempty"` // to paste for it, each complete as it is
}

// With returns the finding with the remedy.
func (f Finding) With(r fault.Remedy) Finding {
	f.Remedy, f.Commands = r.Next, r.Commands
	return f
}

// ToDo returns the remedy.
func (f Finding) ToDo() fault.Remedy { return fault.Remedy{Next: f.Remedy, Commands: f.Commands} }
