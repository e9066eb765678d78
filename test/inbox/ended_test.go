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
