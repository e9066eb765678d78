package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// HeldBack is why the window ends earlier than --grace says. A transaction that is open may have rows that are older
// than that, dated by its begin, which no other session sees before its commit; and no later window has them.
type HeldBack struct {
	Until       time.Time `json:"until"` // by --grace
	Transaction string    `json:"transaction"`
	// it is prepared: its rows are older than the window's end, by as long as it was open before
	Prepared bool `json:"prepared"`
	Hidden   int  `json:"hidden,omitempty"` // transactions whose begin the role may not see
}

// A session's begin is visible to its own role and pg_read_all_stats, its pid and its locks to all (Postgres docs
// 27.2.3). A transaction without an id has written nothing.
const oldestWriterSQL = `WITH writers AS (
  SELECT format('session %s (role %I, application %s)', a.pid, a.usename, quote_ident(a.application_name)) AS name,
    false AS prepared, a.xact_start AS at
  FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
  WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND a.datname = current_database()
    AND a.backend_type IS DISTINCT FROM 'autovacuum worker' AND a.pid <> pg_backend_pid()
  UNION ALL SELECT format('prepared transaction %L', gid), true, prepared FROM pg_prepared_xacts
  WHERE database = current_database())
SELECT name, prepared, at, (SELECT count(*) FROM writers WHERE at IS NULL) FROM writers
WHERE at < $1::timestamptz OR at IS NULL ORDER BY at NULLS LAST LIMIT 1`

// holdBack ends the window before the begin of every open transaction that has written. It looks before any row is
// read: what has committed until then is seen.
func (a *auditor) holdBack(ctx context.Context) error {
	h := &HeldBack{Until: a.until.UTC()}
	var at *time.Time
	err := a.conn.QueryRow(ctx, oldestWriterSQL, a.until).Scan(&h.Transaction, &h.Prepared, &at, &h.Hidden)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return postgres.QueryFault("open transactions", err)
	}
	a.held = h
	if at == nil {
		h.Transaction = ""
		return nil
	}
	a.until = *at
	return nil
}

// text is the report's line about it.
func (h *HeldBack) text() (s string) {
	if h.Transaction != "" {
		s = fmt.Sprintf("held back: the window ends at the begin of %s, which has written and is open\n",
			fault.Printable(h.Transaction))
	}
	if h.Prepared {
		s += "not seen: rows of that transaction are older than its preparation, at which the window ends; audit " +
			"again after its end, with a longer --since\n"
	}
	if h.Hidden > 0 {
		s += fmt.Sprintf("not known: since when %d open transactions write; a role with pg_read_all_stats sees it\n",
			h.Hidden)
	}
	return s
}
