package outbox

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"
)

// emitStatement writes messages in the order of the array. They are transactional (true): a rollback discards them.
const emitStatement = `SELECT pg_catalog.count(pg_catalog.pg_logical_emit_message(true, $1::pg_catalog.text, e.content))
FROM pg_catalog.unnest($2::pg_catalog.text[]) AS e (content)`

// Emit writes events into the write-ahead log alone, without a table, as part of tx. The relay publishes the messages
// whose prefix it is configured with (postgres.messages). No row remains from which an event could be published again.
//
// Options.Payload selects the form of the payload. JSON is published byte for byte, with JSONB too. An event without a
// Timestamp gets the time of the commit.
func (o *Outbox) Emit(ctx context.Context, tx pgx.Tx, events ...Event) error {
	args, err := o.messages(ctx, events)
	if err != nil || args == nil {
		return err
	}
	if err := open(tx); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, emitStatement, args...)
	return failure("emit", err)
}

// EmitSQL is Emit for database/sql.
func (o *Outbox) EmitSQL(ctx context.Context, tx *sql.Tx, events ...Event) error {
	args, err := o.messages(ctx, events)
	if err != nil || args == nil {
		return err
	}
	if tx == nil {
		return errNoTx
	}
	_, err = tx.ExecContext(ctx, emitStatement, args...)
	return failure("emit", err)
}

func (o *Outbox) messages(ctx context.Context, events []Event) ([]any, error) {
	var contents arrayLiteral
	err := o.rows(ctx, events, func(row [7]*string) {
		text := o.message(row)
		contents.add(&text)
	})
	if err != nil || len(events) == 0 {
		return nil, err
	}
	return []any{o.prefix, contents.String()}, nil
}

// message returns the content of a message. The payload is copied unchanged, because json.Marshal would change white
// space and escapes.
func (o *Outbox) message(row [7]*string) string {
	var b strings.Builder
	separator := "{"
	member := func(name, value string) {
		b.WriteString(separator + `"` + name + `":` + value)
		separator = ","
	}
	for i, name := range []string{"id", "aggregate_type", "aggregate_id", "type"} {
		member(name, quoted(*row[i]))
	}
	payload, headers, timestamp := row[4], row[5], row[6]
	switch {
	case payload == nil:
	case o.payload == Text:
		member("payload_text", quoted(*payload))
	case o.payload == Bytea:
		raw, _ := hex.DecodeString((*payload)[2:]) // written by text
		member("payload_base64", quoted(base64.StdEncoding.EncodeToString(raw)))
	default:
		member("payload", *payload)
	}
	if headers != nil {
		member("headers", *headers)
	}
	if timestamp != nil {
		member("timestamp", quoted(*timestamp))
	}
	return b.String() + "}"
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a string can always be marshalled
	return string(b)
}
