package polling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// PolledAt is what the column is called once nothing is polled any more.
const PolledAt = "polled_at"

// endedMark begins the comment on the column that was renamed. It says so too where somebody renames the column again.
const endedMark = "cdc-outbox migrate polling has ended polling of this table"

// ErrEnded is why nothing is polled: adding the column again would have every event published by polling and from the log.
var ErrEnded = errors.New("polling of this table was ended by `cdc-outbox migrate polling`")

// ended finds the column that was renamed.
func (t *tableState) ended(published string) (column string, yes bool) {
	if _, ok := t.column(published); ok {
		return "", false
	}
	for _, c := range t.Columns {
		if strings.HasPrefix(c.Comment, endedMark) || c.Name == PolledAt && strings.HasPrefix(c.Type, "timestamp") {
			return c.Name, true
		}
	}
	return "", false
}

func endedFault(t replication.Table, published, column string) *fault.Error {
	return &fault.Error{Kind: fault.Operator, Object: "table " + t.String(), Err: fmt.Errorf("%w: %s is called %s now", ErrEnded, quoted(published), quoted(column)), Next: endedNext}
}

const endedNext = "Run the configuration that reads the log (source: wal). Polling besides it would publish each event twice. To poll instead: docs/migrating-from-polling.md, The way back."

// Ended returns an error that wraps ErrEnded where `migrate polling` has ended polling of one of the tables.
func Ended(ctx context.Context, dsn string, s Setup) error {
	conn, err := replication.Connect(ctx, dsn, "cdc-outbox")
	if err != nil {
		return err
	}
	defer replication.CloseConn(conn)
	for _, t := range s.Tables {
		st, err := lookupTable(ctx, conn, t, &s)
		if err != nil {
			return err
		}
		if column, yes := st.ended(s.Columns.Published); yes {
			return endedFault(t, s.Columns.Published, column)
		}
	}
	return nil
}

// orEnded says in the place of a missing column that polling is over, where it is.
func orEnded(ctx context.Context, cfg *Config, err error) error {
	if replication.SQLState(err) != "42703" {
		return err
	}
	dsn, derr := cfg.DSN()
	if derr != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if over := Ended(ctx, dsn, cfg.setup()); errors.Is(over, ErrEnded) {
		return over
	}
	return err
}

// CheckBesideLog warns of tables of a publication that are all set to be polled too.
func CheckBesideLog(ctx context.Context, dsn, publication string, s Setup) []preflight.Finding {
	conn, err := replication.Connect(ctx, dsn, "cdc-outbox check")
	if err != nil {
		return nil // the other findings say so
	}
	defer replication.CloseConn(conn)
	var out []preflight.Finding
	for _, t := range s.Tables {
		st, err := lookupTable(ctx, conn, t, &s)
		if err != nil || !st.Exists || st.Index == nil {
			continue
		}
		if _, ok := st.column(s.Columns.Published); !ok {
			continue
		}
		held := false
		err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_publication_tables WHERE pubname = $1::text AND schemaname = $2::text AND tablename = $3::text)",
			publication, t.Schema, t.Name).Scan(&held)
		if err != nil || !held {
			continue
		}
		out = append(out, preflight.Finding{Level: preflight.Warn, Subject: "table " + t.String(),
			Found:  fmt.Sprintf("It is in the publication, and has what polling needs: %s and the index %s.", quoted(s.Columns.Published), quoted(indexName(t))),
			Why:    "A relay that polls may be publishing the same rows: each event would come twice.",
			Remedy: "-- stop every relay with source: polling; where none is to poll again, as the table's owner:\nDROP INDEX " + quoted(t.Schema) + "." + quoted(indexName(t)) + ";"})
	}
	return out
}
