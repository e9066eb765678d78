package inbox_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// bed is a database with the ledger and with a table effects(event) that the handlers write to.
type bed struct {
	*testkit.Database
	pool *pgxpool.Pool
	sql  *sql.DB
}

func newBed(t *testing.T) *bed {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	b := &bed{Database: testkit.Postgres(t)}
	ddl, err := inbox.Schema(inbox.Options{})
	require.NoError(t, err)
	b.Exec(t, ddl)
	b.Exec(t, ddl) // a second time does nothing
	b.Exec(t, "CREATE TABLE effects (event text NOT NULL, by text NOT NULL)")
	b.pool = b.connect(t, nil)
	b.sql, err = sql.Open("pgx", b.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.sql.Close() })
	return b
}

func (b *bed) connect(t *testing.T, tracer pgx.QueryTracer) *pgxpool.Pool {
	cfg, err := pgxpool.ParseConfig(b.DSN)
	require.NoError(t, err)
	cfg.MaxConns = 12
	cfg.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// waitingSessions are the sessions that wait for a lock, for count.
const waitingSessions = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

func (b *bed) count(t *testing.T, from string) (n int) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n))
	return n
}

// once is Handle or HandleBatch, with a handler that writes one effect.
type once func(ctx context.Context, id string) error

func (b *bed) variants(t *testing.T, opts inbox.Options) map[string]once {
	in, err := inbox.New(b.pool, opts)
	require.NoError(t, err)
	std, err := inbox.NewSQL(b.sql, opts)
	require.NoError(t, err)
	return map[string]once{
		"pgx": func(ctx context.Context, id string) error {
			return in.Handle(ctx, inbox.Event{ID: id, Source: "t/0@1"}, effect(id, opts.Consumer))
		},
		"database/sql": func(ctx context.Context, id string) error {
			return std.Handle(ctx, inbox.Event{ID: id}, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ($1, $2)", id, opts.Consumer)
				return err
			})
		},
		"a batch, pgx": func(ctx context.Context, id string) error {
			return in.HandleBatch(ctx, []inbox.Event{{ID: id}, {ID: id}},
				func(ctx context.Context, tx pgx.Tx, _ []int) error { return effect(id, opts.Consumer)(ctx, tx) })
		},
		"a batch, database/sql": func(ctx context.Context, id string) error {
			return std.HandleBatch(ctx, []inbox.Event{{ID: id}, {ID: id}},
				func(ctx context.Context, tx *sql.Tx, _ []int) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ($1, $2)", id, opts.Consumer)
					return err
				})
		},
	}
}

func effect(id, consumer string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", id, consumer)
		return err
	}
}

// eachStrategy runs a test with both.
func eachStrategy(t *testing.T, test func(t *testing.T, opts inbox.Options)) {
	for _, s := range []inbox.Strategy{inbox.Insert, inbox.Advisory} {
		t.Run(string(s), func(t *testing.T) { test(t, inbox.Options{Consumer: "billing", Strategy: s}) })
	}
}
