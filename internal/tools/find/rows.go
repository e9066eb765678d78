package find

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// maxRows is how many rows of a key are looked at.
const maxRows = 1000

// rows reads the rows with the id or the key. end is the end of the log when they had been read, 0 if that is not
// known.
func (o *Options) rows(ctx context.Context, r *Report) (end lsn.LSN, err error) {
	for _, table := range o.Admin.Tables {
		at, err := o.rowsOf(ctx, table, r)
		if err != nil {
			return 0, err
		}
		end = max(end, at)
	}
	return end, nil
}

func (o *Options) rowsOf(ctx context.Context, table identifier.Table, r *Report) (lsn.LSN, error) {
	var filter outboxtable.Filter
	if o.Key != "" {
		if o.Admin.Columns.AggregateID == "" {
			return 0, nil // the key is built from other columns
		}
		filter.AggregateIDs, filter.Since = []string{o.Key}, o.Since
	}
	rows, err := outboxtable.Open(ctx, o.DSN, o.Admin, table, filter)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var prepared *pgoutput.Relation
	take := func(rel *pgoutput.Relation, tuple pgoutput.Tuple, key outboxtable.Key) error {
		if rel != prepared {
			if err := o.Router.Prepare(rel); err != nil {
				return err
			}
			prepared = rel
		}
		row, err := o.routed(rel, tuple, rows.Began())
		if err != nil {
			return err
		}
		row.Table, row.EventID = table.String(), key.ID
		r.Rows = append(r.Rows, row)
		return nil
	}
	if o.ID != "" {
		err = rows.ByID(ctx, []string{o.ID}, func(rel *pgoutput.Relation, row pgoutput.Tuple, key outboxtable.Key,
			_ bool,
		) error {
			return take(rel, row, key)
		})
	} else {
		_, err = rows.Page(ctx, nil, maxRows, take)
	}
	if err != nil {
		return 0, err
	}
	return rows.WALEnd(ctx)
}

// routed is the row as its record would be.
func (o *Options) routed(rel *pgoutput.Relation, tuple pgoutput.Tuple, now time.Time) (Row, error) {
	rec, err := o.Router.Route(rel, tuple, router.Source{CommitTime: now})
	var bad *router.RowError
	switch {
	case errors.As(err, &bad):
		return Row{Bad: fmt.Sprintf("%s (%s)", bad.Detail, bad.Reason), Policy: string(o.Policies.For(bad.Reason))}, nil
	case err != nil:
		return Row{}, err
	}
	at := time.UnixMilli(rec.Timestamp).UTC()
	return Row{
		Topic: strings.Clone(rec.Topic), Key: string(rec.Key), Timestamp: &at, key: append([]byte{}, rec.Key...),
		partition: rec.Partition, untimed: rec.Timestamp == now.UnixMilli(),
	}, nil
}

// ids are the texts under which records and letters may have the event's id: as it was given, and as Postgres prints
// it.
func (o *Options) ids(r *Report) []string {
	ids := []string{o.ID}
	if lower := strings.ToLower(o.ID); lower != o.ID && len(o.ID) == 36 {
		ids = append(ids, lower) // a uuid
	}
	for i := range r.Rows {
		if id := r.Rows[i].EventID; id != o.ID {
			ids = append(ids, id)
		}
	}
	return ids
}

// keys are the bytes under which records may have the key: as it was given, and as the router writes it, which a
// converter of keys may change.
func (o *Options) keys(r *Report) [][]byte {
	keys := [][]byte{[]byte(o.Key)}
	for i := range r.Rows {
		if key := r.Rows[i].key; len(key) > 0 &&
			!slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// eventID is the id in a record's header.
func (o *Options) eventID(headers []router.Header) string {
	if o.HeaderID == nil {
		return deadletter.EventID(headers)
	}
	for _, h := range headers {
		if h.Key == router.HeaderID {
			return string(o.HeaderID(h.Value))
		}
	}
	return ""
}

// passed reports whether the slot is past a position; nil if the record has none.
func passed(position string, confirmed lsn.LSN) *bool {
	pos, err := offsets.ParsePosition(position)
	if err != nil || pos.Commit == 0 {
		return nil
	}
	is := pos.Commit < offsets.LSN(confirmed)
	return &is
}

// born is the time within a version 7 uuid (RFC 9562, 5.7), zero for another id.
func born(id string) time.Time {
	plain := strings.ToLower(strings.ReplaceAll(id, "-", ""))
	if len(plain) != 32 || plain[12] != '7' {
		return time.Time{}
	}
	var ms int64
	if _, err := fmt.Sscanf(plain[:12], "%x", &ms); err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
