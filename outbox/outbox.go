package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Options of an Outbox. The zero value is the table outbox, found through the search_path, with a jsonb payload.
type Options struct {
	// Schema and Table name the table as the catalog stores the names: unquoted, case preserved. Default: no schema, so
	// that the search_path decides, and "outbox".
	Schema, Table string
	// Payload is the type of the payload column. Default: JSONB.
	Payload PayloadType
	// Partitioned makes Schema return a table that is partitioned by created_at. Default: a plain table.
	Partitioned bool
	// Prefix of the messages that Emit writes. Default: "outbox".
	Prefix string
	// Headers, if set, is called once per Insert. It returns headers for all events of the call, such as the
	// traceparent of the span in ctx. An event's own headers take precedence.
	Headers func(ctx context.Context) map[string]string
}

// Outbox inserts events into one table. It is safe for concurrent use.
type Outbox struct {
	payload PayloadType
	headers func(context.Context) map[string]string
	insert  string
	prefix  string
}

// New checks the options and returns an Outbox. It does not access the database.
func New(opts Options) (*Outbox, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	insert := insertStatement(opts)
	return &Outbox{payload: opts.Payload, headers: opts.Headers, insert: insert, prefix: opts.Prefix}, nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Table == "" {
		o.Table = "outbox"
	}
	if o.Payload == "" {
		o.Payload = JSONB
	}
	if o.Prefix == "" {
		o.Prefix = "outbox"
	}
	if !o.Payload.known() {
		return o, fmt.Errorf("outbox: the payload type %q is not one of %s, %s, %s, %s",
			o.Payload, JSONB, JSON, Text, Bytea)
	}
	for _, name := range []string{o.Schema, o.Table, o.Prefix} {
		if strings.ContainsRune(name, 0) {
			return o, fmt.Errorf("outbox: the name %q contains a NUL character", name)
		}
		// Postgres would silently truncate a longer name (docs 4.1.1).
		if len(name) > maxIdentifier {
			return o, fmt.Errorf("outbox: the name %q is longer than %d bytes", name, maxIdentifier)
		}
	}
	return o, nil
}

const maxIdentifier = 63

func (o Options) table() string {
	if o.Schema == "" {
		return pgx.Identifier{o.Table}.Sanitize()
	}
	return pgx.Identifier{o.Schema, o.Table}.Sanitize()
}

// insertStatement has the same text for any number of events, so it is prepared once. Each parameter is an array in
// text form, which every driver can send. The ordinality keeps the order of the events, and so the order of the rows in
// the log.
func insertStatement(opts Options) string {
	return fmt.Sprintf(`INSERT INTO %s (id, aggregate_type, aggregate_id, event_type, payload, headers, created_at)
SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.headers,
	coalesce(e.created_at, pg_catalog.now())
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::%s[], $6::jsonb[], $7::timestamptz[])
WITH ORDINALITY AS e (id, aggregate_type, aggregate_id, event_type, payload, headers, created_at, n)
ORDER BY e.n`, opts.table(), opts.Payload)
}

var standard = func() *Outbox {
	o, err := New(Options{})
	if err != nil {
		panic(err)
	}
	return o
}()

// Insert writes events into the table outbox, as part of tx. See Outbox.Insert.
func Insert(ctx context.Context, tx pgx.Tx, events ...Event) error {
	return standard.Insert(ctx, tx, events...)
}

// InsertSQL writes events into the table outbox, as part of tx. See Outbox.InsertSQL.
func InsertSQL(ctx context.Context, tx *sql.Tx, events ...Event) error {
	return standard.InsertSQL(ctx, tx, events...)
}

// Insert writes events as part of tx, in their order, with one statement. It returns an *EventError for an invalid
// event before anything is sent, and ErrClosed for a transaction that has ended. Any other error comes from the
// database and has aborted the transaction. Without events Insert does nothing.
func (o *Outbox) Insert(ctx context.Context, tx pgx.Tx, events ...Event) error {
	args, err := o.arguments(ctx, events)
	if err != nil || args == nil {
		return err
	}
	if err := open(tx); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, o.insert, args...)
	return failure("insert", err)
}

// Queue adds the statement that inserts the events to a batch, which saves a round trip. Send the batch with the
// transaction's SendBatch. (On a connection a batch is a transaction of its own, unless it contains BEGIN or COMMIT.)
// After an *EventError the batch is unchanged.
func (o *Outbox) Queue(ctx context.Context, batch *pgx.Batch, events ...Event) error {
	args, err := o.arguments(ctx, events)
	if err != nil || args == nil {
		return err
	}
	batch.Queue(o.insert, args...)
	return nil
}

// InsertSQL is Insert for database/sql, with any Postgres driver.
func (o *Outbox) InsertSQL(ctx context.Context, tx *sql.Tx, events ...Event) error {
	args, err := o.arguments(ctx, events)
	if err != nil || args == nil {
		return err
	}
	if tx == nil {
		return errNoTx
	}
	_, err = tx.ExecContext(ctx, o.insert, args...)
	return failure("insert", err)
}

// arguments validates the events and returns the statement's parameters.
func (o *Outbox) arguments(ctx context.Context, events []Event) ([]any, error) {
	var columns [7]arrayLiteral
	err := o.rows(ctx, events, func(row [7]*string) {
		for c, text := range row {
			columns[c].add(text)
		}
	})
	if err != nil || len(events) == 0 {
		return nil, err
	}
	args := make([]any, len(columns))
	for i := range columns {
		args[i] = columns[i].String()
	}
	return args, nil
}

// rows validates the events and calls add with the values of each event.
func (o *Outbox) rows(ctx context.Context, events []Event, add func(row [7]*string)) error {
	var extra map[string]string
	if o.headers != nil && len(events) > 0 {
		extra = o.headers(ctx)
	}
	for i := range events {
		row, err := o.row(&events[i], extra)
		if err != nil {
			err.Index = i
			return err
		}
		add(row)
	}
	return nil
}

// row returns an event's values in the order of the statement's parameters, nil for NULL.
func (o *Outbox) row(e *Event, extra map[string]string) ([7]*string, *EventError) {
	if err := e.validate(); err != nil {
		return [7]*string{}, err
	}
	if e.Version != 0 {
		wrapped := e.wrapped(o.payload, extra)
		e = &wrapped
	}
	id := e.ID
	if id == "" {
		id = NewID()
	}
	payload, err := o.payload.text(e.Payload)
	if err != nil {
		return [7]*string{}, err
	}
	headers, err := e.headerText(extra)
	if err != nil {
		return [7]*string{}, err
	}
	var timestamp *string
	if !e.Timestamp.IsZero() {
		// Postgres rounds to microseconds, and rounding up could give a time in the future.
		text := e.Timestamp.UTC().Format("2006-01-02 15:04:05.000000+00")
		timestamp = &text
	}
	return [7]*string{&id, &e.AggregateType, &e.AggregateID, &e.Type, payload, headers, timestamp}, nil
}
