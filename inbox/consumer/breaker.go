package consumer

import (
	"errors"
	"strings"
)

// breaker counts dead letters in a row that have one cause.
type breaker struct {
	cause   string
	letters int
}

// open reports whether so many letters in a row had the cause of this failure.
func (b *breaker) open(m Message, err error, limit int) bool {
	return limit > 0 && b.letters >= limit && b.cause == causeOf(m, err)
}

func (b *breaker) count(m Message, err error) {
	if cause := causeOf(m, err); b.cause != cause {
		*b = breaker{cause: cause}
	}
	b.letters++
}

// causeOf is the SQLSTATE, because the texts of Postgres name values; without one the text apart from the event's id.
func causeOf(m Message, err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return "SQLSTATE " + state.SQLState()
	}
	return strings.ReplaceAll(err.Error(), m.ID, "")
}
