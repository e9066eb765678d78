// Package failure says what a handler's error means for its record.
package failure

import (
	"errors"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Unavailable is an error of something that the handler needs and that is away.
type Unavailable struct{ error }

// Unwrap returns the cause.
func (u Unavailable) Unwrap() error { return u.error }

// Away marks an error.
func Away(err error) error { return Unavailable{err} }

// IsUnavailable reports whether the record waits, and is not the cause.
func IsUnavailable(err error) bool {
	var u Unavailable
	return errors.As(err, &u) || errors.Is(err, inbox.ErrNotSent) || errors.Is(err, inbox.ErrLedger)
}

// Permanent is an error that no repeat can fix.
type Permanent struct{ error }

// Unwrap returns the cause.
func (p Permanent) Unwrap() error { return p.error }

// Final marks an error.
func Final(err error) error { return Permanent{err} }

// IsPermanent reports whether the record becomes a dead letter at once.
func IsPermanent(err error) bool {
	var p Permanent
	return errors.As(err, &p) || errors.Is(err, inbox.ErrUnfinished) || errors.Is(err, inbox.ErrEventID)
}
