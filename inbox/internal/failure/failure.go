// Package failure says what a handler's error means for its record.
package failure

import (
	"errors"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

type unavailable struct{ error }

func (u unavailable) Unwrap() error { return u.error }

// Away marks an error of something that the handler needs and that is away.
func Away(err error) error { return unavailable{err} }

// IsUnavailable reports whether the record waits, and is not the cause.
func IsUnavailable(err error) bool {
	var u unavailable
	return errors.As(err, &u) || errors.Is(err, inbox.ErrNotSent) || errors.Is(err, inbox.ErrLedger)
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Final marks an error that no repeat can fix.
func Final(err error) error { return permanent{err} }

// IsPermanent reports whether the record becomes a dead letter at once.
func IsPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p) || errors.Is(err, inbox.ErrUnfinished) || errors.Is(err, inbox.ErrEventID)
}
