package outboxtable

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// Timed reports whether the table has a column with the events' times.
func (r *Rows) Timed() bool { return r.cfg.Columns.Timestamp != "" }

// Untimed counts the rows without a time, which lie in no range of times. A table without times has none of them: no
// range can be chosen there.
func (r *Rows) Untimed(ctx context.Context) (n int64, err error) {
	c, ok := r.info.Column(r.cfg.Columns.Timestamp)
	if !ok || c.NotNull {
		return 0, nil
	}
	err = r.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE %s IS NULL", r.table.SQL(),
		identifier.Quote(c.Name))).Scan(&n)
	if err != nil {
		return 0, postgres.QueryFault("table "+r.table.String(), err)
	}
	return n, nil
}

// Oldest is the time of the oldest row; ok is false where no row has one.
func (r *Rows) Oldest(ctx context.Context) (at time.Time, ok bool, err error) {
	ts := identifier.Quote(r.cfg.Columns.Timestamp)
	var oldest *time.Time
	err = r.conn.QueryRow(ctx, fmt.Sprintf("SELECT min(%s) FILTER (WHERE isfinite(%[1]s))::timestamptz FROM %s", ts,
		r.table.SQL())).Scan(&oldest)
	if err != nil {
		return at, false, postgres.QueryFault("table "+r.table.String(), err)
	}
	if oldest == nil {
		return at, false, nil
	}
	return *oldest, true, nil
}

// Present returns which of the ids rows have. Texts that no id of the table can have are not present.
func (r *Rows) Present(ctx context.Context, ids []string) (map[string]bool, error) {
	present := make(map[string]bool, len(ids))
	return present, r.addPresent(ctx, ids, present)
}

func (r *Rows) addPresent(ctx context.Context, ids []string, present map[string]bool) error {
	if len(ids) == 0 {
		return nil
	}
	id := identifier.Quote(r.cfg.Columns.ID)
	rows, err := r.conn.Query(ctx, fmt.Sprintf("SELECT %s::text FROM %s WHERE %[1]s = ANY ($1::text[]::%[3]s[])", id,
		r.table.SQL(), r.info.CastType(r.cfg.Columns.ID)), ids)
	if err == nil {
		for rows.Next() {
			var found string
			if err := rows.Scan(&found); err != nil {
				rows.Close()
				return postgres.QueryFault("table "+r.table.String(), err)
			}
			present[found] = true
		}
		err = rows.Err()
	}
	switch {
	case err == nil:
		return nil
	case !strings.HasPrefix(sqlstate.Of(err), "22"): // not a value of the type
		return postgres.QueryFault("table "+r.table.String(), err)
	case len(ids) == 1:
		return nil
	}
	if err := r.addPresent(ctx, ids[:len(ids)/2], present); err != nil {
		return err
	}
	return r.addPresent(ctx, ids[len(ids)/2:], present)
}

// AwaitEnded waits until all transactions that are open now have ended, and reports whether they have within the limit.
// An event may be in Kafka before its row can be seen: its writer is still in COMMIT.
func (r *Rows) AwaitEnded(ctx context.Context, limit time.Duration) (bool, error) {
	var until string
	err := r.conn.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text").Scan(&until)
	for deadline := time.Now().Add(limit); err == nil; {
		var ended bool
		err = r.conn.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8", until).
			Scan(&ended)
		if err != nil || ended || time.Now().After(deadline) {
			return ended, faultOf(err)
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false, faultOf(err)
}

func faultOf(err error) error {
	if err == nil {
		return nil
	}
	return postgres.QueryFault("server", err)
}
