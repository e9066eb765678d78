package preflight

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Fine is a finding that has nothing to complain about.
func Fine(subject, found string) Finding {
	return Finding{Level: OK, Subject: subject, Found: found}
}

// Fault returns the finding as an Operator error, for a process that cannot go on because of it.
func (f Finding) Fault() *fault.Error {
	return &fault.Error{
		Kind: fault.Operator, Object: f.Subject,
		Err: errors.New(TrimStop(f.Found) + ". " + TrimStop(f.Why)), Next: f.Remedy, Commands: f.Commands,
	}
}

// FirstFailure returns the first finding that fails as an Operator error and counts the other failures. It returns nil
// if no finding fails.
func FirstFailure(findings []Finding) error {
	var first *fault.Error
	more := 0
	for _, f := range findings {
		switch {
		case f.Level != Fail:
		case first != nil:
			more++
		default:
			first = f.Fault()
		}
	}
	if first == nil {
		return nil
	}
	if more > 0 {
		first.Err = fmt.Errorf("%w (`cdc-outbox check` names %d more)", first.Err, more)
	}
	return first
}

// TrimStop cuts the period from the end of a sentence, so that the sentence can be continued.
func TrimStop(s string) string { return strings.TrimSuffix(s, ".") }
