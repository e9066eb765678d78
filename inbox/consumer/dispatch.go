package consumer

import (
	"context"
	"encoding/json"
	"fmt"
)

// ByType returns a Handler that gives each record to the handler of its Type. otherwise handles records of other types,
// and records without one; nil makes them dead letters. Ignore passes over them.
func ByType(handlers map[string]Handler, otherwise Handler) Handler {
	return func(ctx context.Context, m Message) error {
		switch handle, ok := handlers[m.Type]; {
		case ok:
			return handle(ctx, m)
		case otherwise != nil:
			return otherwise(ctx, m)
		}
		return Permanent(fmt.Errorf("no handler for events of type %q", m.Type))
	}
}

// Ignore is a Handler that does nothing. The ledger does not know the record then.
func Ignore(context.Context, Message) error { return nil }

// JSON decodes the record's value for a function that InTx (Tx is pgx.Tx) or InSQLTx (*sql.Tx) takes:
//
//	consumer.InTx(in, consumer.JSON(func(ctx context.Context, tx pgx.Tx, m consumer.Message, o Order) error { ... }))
//
// A value that is no such JSON is a Permanent error, whose text does not quote it. A tombstone (m.Value is nil) has the
// zero value of T.
func JSON[Tx, T any](
	handle func(ctx context.Context, tx Tx, m Message, payload T) error,
) func(ctx context.Context, tx Tx, m Message) error {
	return func(ctx context.Context, tx Tx, m Message) error {
		var payload T
		if m.Value != nil {
			if err := json.Unmarshal(m.Value, &payload); err != nil {
				return Permanent(fmt.Errorf("the value cannot be decoded into %T: %w", payload, unquoted(err)))
			}
		}
		return handle(ctx, tx, m, payload)
	}
}

// unquoted is the error without parts of the value, since it becomes a header of the dead letter and a line of the log.
func unquoted(err error) error {
	switch e := err.(type) { //nolint:errorlint // of json.Unmarshal itself
	case *json.SyntaxError:
		return fmt.Errorf("it is not JSON, at byte %d", e.Offset)
	case *json.UnmarshalTypeError:
		return fmt.Errorf("member %q is not a %s, at byte %d", e.Field, e.Type, e.Offset)
	}
	return fmt.Errorf("%T", err)
}
