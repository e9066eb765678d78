package setup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// openTransaction is a transaction that has written and is not over: it holds back a slot's restart_lsn, and the
// creation of a slot waits for it. Which database it is in does not matter.
type openTransaction struct {
	PID         int     `json:"pid"` // 0: prepared, no session belongs to it
	GID         string  `json:"gid"`
	Database    string  `json:"database"`
	User        string  `json:"user"`
	Application string  `json:"application"`
	State       string  `json:"state"`
	Age         float64 `json:"age"` // seconds; -1 where the connected role may not see it
}

// openTransactionsSQL: pid and backend_xid are visible to every role, the rest of another role's session only to
// members of pg_read_all_stats (pg_stat_get_activity).
const openTransactionsSQL = `
SELECT coalesce(jsonb_agg(to_jsonb(o) ORDER BY o.xids DESC), '[]')::text FROM (
  SELECT pid, '' AS gid, coalesce(datname, '') AS database, coalesce(usename, '') AS user,
    coalesce(application_name, '') AS application,
         coalesce(state, '') AS state, coalesce(extract(epoch FROM clock_timestamp() - xact_start), -1) AS age,
           age(backend_xid) AS xids
    FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
  UNION ALL
  SELECT 0, gid, database, owner, '', 'prepared', extract(epoch FROM clock_timestamp() - prepared), age(transaction)
    FROM pg_catalog.pg_prepared_xacts
  ORDER BY xids DESC LIMIT $1::int) o`

// openTransactions returns the oldest first.
func openTransactions(ctx context.Context, q postgres.Querier, limit int) ([]openTransaction, error) {
	var row []byte
	if err := q.QueryRow(ctx, openTransactionsSQL, limit).Scan(&row); err != nil {
		return nil, fmt.Errorf("read open transactions: %w", err)
	}
	var open []openTransaction
	if err := json.Unmarshal(row, &open); err != nil {
		return nil, fmt.Errorf("read open transactions: %w", err)
	}
	return open, nil
}

// openTransactions asks the server that writes, as far as one is known.
func (s servers) openTransactions(ctx context.Context, limit int) ([]openTransaction, error) {
	if s.primary == nil {
		return nil, nil
	}
	return openTransactions(ctx, s.primary, limit)
}

func (t openTransaction) age() time.Duration {
	return time.Duration(t.Age * float64(time.Second)).Round(time.Second)
}

// String names the transaction without its query, which may hold data.
func (t openTransaction) String() string {
	age := "of unknown age"
	if t.Age >= 0 {
		age = "open for " + human.Duration(t.age())
	}
	if t.PID == 0 {
		return fmt.Sprintf("prepared transaction %q in database %q, %s", t.GID, t.Database, age)
	}
	return fmt.Sprintf("pid %d (%s, application %q, database %q), %s", t.PID, t.User, t.Application, t.Database, age)
}

func (t openTransaction) remedy() fault.Remedy {
	if t.PID == 0 {
		return fault.Do(fmt.Sprintf("Roll it back or commit it, in database %s.", identifier.Quote(t.Database)),
			postgres.EndPrepared(t.GID)...)
	}
	return fault.Do("Let it end, or end its session.",
		fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", t.PID))
}
