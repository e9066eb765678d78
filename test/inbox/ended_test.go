package inbox_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// What a handler does to its transaction in SQL may take the claim away, and leave a session that looks as before.
//
// Bug (monitor): A handler that ran `ROLLBACK AND CHAIN`, or `ROLLBACK` with database/sql, and returned no error lost
// its event. Cost: neither an effect nor a row of the ledger, and the offset was committed.
func TestTheClaimIsProvenBeforeTheCommit(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		in, err := inbox.New(b.pool, opts)
		require.NoError(t, err)
		std, err := inbox.NewSQL(b.sql, opts)
		require.NoError(t, err)
		variants := b.variants(t, opts)
		for statement, kept := range map[string]bool{
			"COMMIT": true, "COMMIT AND CHAIN": true, "ROLLBACK": false, "ROLLBACK AND CHAIN": false,
		} {
			for variant, handle := range map[string]func(id string, statements ...string) error{
				"pgx": func(id string, statements ...string) error {
					return in.Handle(t.Context(), inbox.Event{ID: id}, func(ctx context.Context, tx pgx.Tx) error {
						for _, s := range statements {
							if _, err := tx.Exec(ctx, s); err != nil {
								return err
							}
						}
						return nil
					})
				},
				"database/sql": func(id string, statements ...string) error {
					return std.Handle(t.Context(), inbox.Event{ID: id}, func(ctx context.Context, tx *sql.Tx) error {
						for _, s := range statements {
							if _, err := tx.ExecContext(ctx, s); err != nil {
								return err
							}
						}
						return nil
					})
				},
			} {
				id := variant + " " + statement
				err := handle(id, "INSERT INTO effects VALUES ('"+id+"', 'billing')", statement)
				require.Error(t, err, id)
				require.Regexp(t, "handler (has )?ended the transaction", err.Error(), id)
				require.NotErrorIs(t, err, inbox.ErrLedger, id)
				err = variants[variant](t.Context(), id)
				switch {
				case !kept:
					require.NoError(t, err, "the next delivery handles the event")
				case opts.Strategy == inbox.Insert:
					require.ErrorIs(t, err, inbox.ErrDuplicate, id)
				default:
					require.ErrorIs(t, err, inbox.ErrUnfinished, "an operator has to decide")
				}
				require.Equal(t, 1, b.count(t, "effects WHERE event = '"+id+"'"), id)
			}
		}
	})
}

// A handler that hides the failure of a statement is at fault itself. For a fault of the ledger the record would wait
// without an end.
func TestAHiddenFailureIsTheHandlers(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		in, err := inbox.New(b.pool, opts)
		require.NoError(t, err)
		std, err := inbox.NewSQL(b.sql, opts)
		require.NoError(t, err)
		for variant, err := range map[string]error{
			"pgx": in.Handle(t.Context(), inbox.Event{ID: "a"}, func(ctx context.Context, tx pgx.Tx) error {
				_, _ = tx.Exec(ctx, "SELECT 1/0")
				return nil
			}),
			"database/sql": std.Handle(t.Context(), inbox.Event{ID: "b"}, func(ctx context.Context, tx *sql.Tx) error {
				_, _ = tx.ExecContext(ctx, "SELECT 1/0")
				return nil
			}),
		} {
			require.Error(t, err, variant)
			require.NotErrorIs(t, err, inbox.ErrLedger, variant)
		}
		require.Zero(t, b.count(t, "processed_events"))
	})
}

// Whatever way a handler ends its transaction and leaves a session in a transaction again, that is found out. What only
// looks like it is not an error.
func TestEachWayToEndATransaction(t *testing.T) {
	b := newBed(t)
	b.Exec(t, "CREATE TABLE late (n int)")
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	run := func(ctx context.Context, tx pgx.Tx, statements ...string) error {
		for _, s := range statements {
			if _, err := tx.Exec(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
	type handler = func(ctx context.Context, tx pgx.Tx) error
	statements := func(all ...string) handler {
		return func(ctx context.Context, tx pgx.Tx) error { return run(ctx, tx, all...) }
	}
	for name, handle := range map[string]handler{
		"two statements": statements("ROLLBACK", "BEGIN"),
		"one message":    statements("SELECT 1; ROLLBACK; BEGIN"),
		"a comment":      statements("/* a */ COMMIT AND CHAIN"),
		"a batch": func(ctx context.Context, tx pgx.Tx) error {
			var batch pgx.Batch
			batch.Queue("SELECT 1")
			batch.Queue("ROLLBACK AND CHAIN")
			return tx.SendBatch(ctx, &batch).Close()
		},
		"a query": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "ROLLBACK AND CHAIN")
			if err == nil {
				rows.Close()
				err = rows.Err()
			}
			return err
		},
		"the connection": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, "ROLLBACK AND CHAIN")
			return err
		},
		"a savepoint": func(ctx context.Context, tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				return run(ctx, tx, "COMMIT AND CHAIN", "SAVEPOINT sp_1")
			})
		},
		"a prepared statement": func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Prepare(ctx, "over", "ROLLBACK AND CHAIN"); err != nil {
				return err
			}
			return run(ctx, tx, "over")
		},
		"after a failure": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return run(ctx, tx, "ROLLBACK AND CHAIN")
		},
		"and writes": func(ctx context.Context, tx pgx.Tx) error {
			return run(ctx, tx, "ROLLBACK AND CHAIN", "INSERT INTO late VALUES (1)")
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, in.Handle(t.Context(), inbox.Event{ID: name}, handle), "has ended the transaction")
		})
	}
	for name, handle := range map[string]handler{
		"a savepoint in SQL": func(ctx context.Context, tx pgx.Tx) error {
			if err := run(ctx, tx, "SAVEPOINT a"); err != nil {
				return err
			}
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return run(ctx, tx, "ROLLBACK TO a", "RELEASE a")
		},
		"a savepoint of pgx": func(ctx context.Context, tx pgx.Tx) error {
			require.Error(t, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return run(ctx, tx, "SELECT 1/0") }))
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return run(ctx, tx, "SELECT 1") })
		},
		"the connection while rows are read": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "SELECT generate_series(1, 3)")
			if err != nil {
				return err
			}
			defer rows.Close()
			require.NotNil(t, tx.Conn().TypeMap())
			return rows.Err()
		},
		"a word":        statements("SELECT CASE WHEN true\nTHEN 1\nEND"),
		"a CALL of DDL": statements("DO $$ BEGIN PERFORM 1; END $$"),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: name}, handle))
			require.Equal(t, 1, b.count(t, "processed_events WHERE event_id = '"+name+"'"))
		})
	}
	require.Zero(t, b.count(t, "late"))
}
