package retry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/letterbox"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Corrections are a person's changes to the letters of a retry.
type Corrections struct {
	Topic, Key string
	Set        []string // COLUMN=VALUE
	Null       []string // columns

	values [][2]string // Set, parsed
}

// Parse reads Set, and refuses a malformed correction.
func (c *Corrections) Parse() error {
	for _, text := range c.Set {
		column, value, ok := strings.Cut(text, "=")
		if !ok || column == "" {
			return fault.Usage(
				"--set takes COLUMN=VALUE", "write for instance --set aggregate_id=42; --null makes a column NULL",
			)
		}
		c.values = append(c.values, [2]string{column, value})
	}
	if c.Topic != "" {
		if err := router.CheckTopic(c.Topic); err != nil {
			return fault.Usage("--topic: "+err.Error(), "name a topic as Kafka takes it")
		}
	}
	return nil
}

// ofRow reports whether there is a correction that only a row can take.
func (c *Corrections) ofRow() bool { return len(c.values)+len(c.Null) > 0 }

// rebuilder makes records of letters.
type rebuilder struct {
	*Options
	box   *letterbox.Box
	conn  *pgx.Conn          // nil until the table is needed
	rel   *pgoutput.Relation // of the last row
	began time.Time
}

func (re *rebuilder) close() {
	if re.conn != nil {
		postgres.CloseConn(re.conn)
	}
}

// rebuild returns the record that the letter should have been.
func (re *rebuilder) rebuild(ctx context.Context, e *deadletter.Entry) (*router.Record, error) {
	l, err := re.box.Letter(ctx, e)
	if err != nil {
		return nil, err
	}
	var rec *router.Record
	if (l.Kind == deadletter.KindRecord || l.Kind == deadletter.KindConsumer) && !re.FromTable {
		if l.Kind == deadletter.KindConsumer && len(l.Cut) > 0 {
			if err := re.box.Complete(ctx, l); err != nil {
				return nil, err
			}
		}
		rec, err = re.record(l)
	} else {
		rec, err = re.row(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	rec.Headers = append(
		slices.Clone(rec.Headers),
		router.Header{Key: deadletter.HeaderRetried, Value: []byte(re.began.UTC().Format(time.RFC3339))},
	)
	return rec, nil
}

// record is the letter of a record that Kafka refused: nothing is routed again.
func (re *rebuilder) record(l *deadletter.Letter) (*router.Record, error) {
	c := &re.Corrections
	if c.ofRow() {
		return nil, errors.New("the dead letter holds the record, not the row: --set and --null need --from-table")
	}
	rec := &router.Record{
		Topic: l.Topic, Partition: l.Partition, Key: l.RecordKey, Value: l.Value, Headers: l.Headers,
		Timestamp: l.Timestamp,
	}
	if c.Topic != "" {
		rec.Topic, rec.Partition = c.Topic, -1
	}
	switch {
	case c.Key != "":
		rec.Key = []byte(c.Key)
		if l.Kind == deadletter.KindConsumer {
			rec.Partition = -1 // the record's partition belongs to its former key
		}
	case slices.Contains(l.Cut, "key"):
		return nil, errors.New("the key was too long for the dead letter: use --from-table, or --key")
	}
	if err := router.CheckTopic(rec.Topic); err != nil {
		return nil, err
	}
	return rec, nil
}

// row routes the letter's row, corrected, as if it came from the log.
func (re *rebuilder) row(ctx context.Context, l *deadletter.Letter) (*router.Record, error) {
	row, added := l.Row, ""
	if row != nil {
		added = re.added(row)
		re.correct(row)
	}
	if row == nil || !row.Complete() || re.FromTable {
		var err error
		if row, err = re.fromTable(ctx, l); err != nil {
			return nil, err
		}
		added = re.added(row)
		re.correct(row)
	}
	rel, tuple, err := row.Restore(l.Value)
	if err != nil {
		return nil, err
	}
	// For each new one the preset debezium may ask Postgres.
	if re.rel != nil && reflect.DeepEqual(rel, re.rel) {
		rel = re.rel
	}
	re.rel = rel
	at := l.CommitTime
	if at.IsZero() {
		at = l.Written
	}
	if err := re.Router.Prepare(rel); err != nil {
		return nil, err
	}
	rec, err := re.Router.Route(rel, tuple, router.Source{Position: positionOf(l), CommitTime: at})
	if err != nil {
		if added != "" {
			return nil, fmt.Errorf("%w; the row itself has no column %s", hint(err), added)
		}
		return nil, hint(err)
	}
	return rec.Clone(), nil
}

// added names the columns of --set and --null that the row does not have: one that the table lacked, or mistyped.
func (re *rebuilder) added(row *deadletter.Row) string {
	var names []string
	for _, v := range re.Corrections.values {
		names = append(names, v[0])
	}
	names = slices.DeleteFunc(append(names, re.Corrections.Null...), func(name string) bool {
		return slices.ContainsFunc(row.Columns, func(c deadletter.Column) bool { return c.Name == name })
	})
	return strings.Join(names, ", ")
}

func (re *rebuilder) correct(row *deadletter.Row) {
	c := &re.Corrections
	if c.Key != "" {
		row.Correct(re.KeyColumn, &c.Key)
	}
	for _, v := range c.values {
		row.Correct(v[0], &v[1])
	}
	for _, name := range c.Null {
		row.Correct(name, nil)
	}
}

// hint names the flag that corrects a row that is still bad; the router's own remedy is about the application.
func hint(err error) error {
	var row *router.RowError
	if !errors.As(err, &row) {
		return err
	}
	how := "--set COLUMN=VALUE or --null COLUMN corrects the row"
	switch row.Reason.Group() {
	case router.GroupUnroutable:
		how = "--topic names another topic"
	case router.GroupNullKey:
		how = "--key gives it a key; --set " + row.Column + "=VALUE sets the column"
	case router.GroupMissingColumn:
		how = "--set " + row.Column + "=VALUE gives it the column"
	}
	return fmt.Errorf("%s (%s); %s", row.Detail, row.Reason, how)
}

// positionOf is the position that the letter's record carries. A row that was polled is named by its number, which is
// not a position in the log.
func positionOf(l *deadletter.Letter) []byte {
	if l.Kind == deadletter.KindConsumer {
		return deadletter.Position(l.Headers)
	}
	if strings.HasPrefix(l.Position, polling.PositionPrefix) {
		return nil
	}
	return []byte(l.Position)
}
