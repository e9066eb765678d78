// Package fault classifies errors by how the process should react. Every error that leaves a package of
// this module towards main is, or wraps, an *Error; one that does not counts as Fatal.
package fault

import (
	"errors"
	"strings"
	"time"
)

// Kind is how the process should react to an error.
type Kind uint8

const (
	// Fatal ends the process with exit code 1: something is wrong that neither waiting nor an operator's
	// change to Postgres or Kafka is known to fix.
	Fatal Kind = iota
	// Retry is temporary: try again with backoff, for as long as it takes.
	Retry
	// Operator calls for a change in Postgres or Kafka by an operator: the process ends with exit code 3.
	Operator
	// Config is a mistake in the configuration or on the command line: exit code 2.
	Config
)

// String returns the kind's name as it appears in logs.
func (k Kind) String() string {
	switch k {
	case Retry:
		return "retry"
	case Operator:
		return "operator"
	case Config:
		return "config"
	default:
		return "fatal"
	}
}

// ExitCode is the process exit code for an error of this kind (docs/decisions/025-exit-codes.md).
func (k Kind) ExitCode() int {
	switch k {
	case Config:
		return 2
	case Operator:
		return 3
	default:
		return 1
	}
}

// Error names the object that failed, the position in the log, the cause and the next step. It never holds payloads,
// passwords or connection strings.
type Error struct {
	Kind   Kind
	Object string // the object that failed, e.g. `slot "cdc_outbox"` or `topic "orders.events"`
	At     string // an LSN or a position, empty if none applies
	Err    error  // the cause
	Next   string // the next step for a person, a sentence

	Commands []string // to paste for it, see Remedy

	Since time.Time // when it was noticed first, zero: just now
}

// Error implements error: object, position, cause, next step.
func (e *Error) Error() string {
	s := e.sentence()
	switch r := e.Remedy(); {
	case r.Next != "":
		s += ". Next: " + r.String()
	case !r.IsZero():
		s += ". Next:" + r.String()
	}
	return s
}

// With sets the next step and returns e.
func (e *Error) With(r Remedy) *Error {
	e.Next, e.Commands = r.Next, r.Commands
	return e
}

// Remedy returns the next step.
func (e *Error) Remedy() Remedy { return Remedy{Next: e.Next, Commands: e.Commands} }

// Split returns the problem, on one line, and its remedy.
func Split(err error) (sentence string, remedy Remedy) {
	sentence = err.Error()
	var e *Error
	if errors.As(err, &e) {
		sentence, remedy = e.sentence(), e.Remedy()
	}
	return strings.ReplaceAll(sentence, "\n", "; "), remedy
}

func (e *Error) sentence() string {
	var b strings.Builder
	b.WriteString(e.Object)
	if e.At != "" {
		b.WriteString(" at ")
		b.WriteString(e.At)
	}
	if e.Err != nil {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost *Error in err's chain, Fatal if there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Fatal
}
