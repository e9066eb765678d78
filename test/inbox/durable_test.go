package inbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// What is acknowledged to Kafka has to be on disk in Postgres, whatever the database's default is.
//
// Bug (monitor): The inbox committed with the database's `synchronous_commit`, also where that is off. Cost: after a
// crash of the database four handled events had no effect, and their offsets were committed.
func TestHandledMeansDurable(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		b.Exec(t, "CREATE TABLE settings (event text, setting text)")
		note := func(ctx context.Context, tx pgx.Tx, event string) error {
			_, err := tx.Exec(ctx, "INSERT INTO settings SELECT $1, current_setting('synchronous_commit')", event)
			return err
		}
		for was, want := range map[string]string{
			"off": "on", "local": "local", "remote_write": "remote_write", "on": "on", "remote_apply": "remote_apply",
		} {
			b.Exec(t, fmt.Sprintf("ALTER DATABASE %s SET synchronous_commit = %s",
				pgx.Identifier{b.Name}.Sanitize(), was))
			pool := b.connect(t, nil)
			in, err := inbox.New(pool, opts)
			require.NoError(t, err)
			require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: was}, func(ctx context.Context, tx pgx.Tx) error {
				return note(ctx, tx, was)
			}))
			batch := []inbox.Event{{ID: was}, {ID: was + " in a batch"}}
			require.NoError(t, in.HandleBatch(t.Context(), batch, func(ctx context.Context, tx pgx.Tx, _ []int) error {
				return note(ctx, tx, batch[1].ID)
			}))
			for _, e := range batch {
				var got, after string
				require.NoError(t, pool.QueryRow(t.Context(),
					"SELECT setting, current_setting('synchronous_commit') FROM settings WHERE event = $1", e.ID).
					Scan(&got, &after))
				require.Equal(t, want, got)
				require.Equal(t, was, after, "for this transaction only")
			}
		}
	})
}

// Instances that start together all create the ledger.
//
// Bug (monitor): `inbox.Schema`, run by two instances at their start, failed in one of them. Cost: an instance that
// ends with a duplicate key in the catalog.
func TestSchemaAtSeveralInstancesStart(t *testing.T) {
	b := newBed(t)
	for round := range 10 {
		ddl, err := inbox.Schema(inbox.Options{Table: fmt.Sprint("ledger", round)})
		require.NoError(t, err)
		var instances sync.WaitGroup
		failed := make(chan error, 8)
		for range cap(failed) {
			instances.Go(func() {
				_, err := b.pool.Exec(context.Background(), ddl)
				failed <- err
			})
		}
		instances.Wait()
		close(failed)
		for err := range failed {
			require.NoError(t, err)
		}
	}
}
