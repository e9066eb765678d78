package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// An error of the ledger or of its connection is never the record's: the partition waits and says why, whatever
// "SELECT 1" answers.
//
// Bug (letters): Whose fault a failure is was guessed by a ping. Cost: with the ledger's table missing, a privilege
// missing, a read-only database or a small pool every event went to the dead-letter topic, while Ready returned nil.
func TestALedgerThatCannotBeUsedIsNotTheRecordsFault(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	reader, poor := "reader_"+db.Name, "poor_"+db.Name // roles are the server's, which tests share
	for name, c := range map[string]struct {
		spoil, mend string // SQL
		table       string
		says        string
		conns       int32 // taken from a pool of one
		forward     bool
	}{
		"no table": {
			table: "none", spoil: "SELECT 1", mend: ledgerDDL(t, "none"), says: `relation "none" does not exist`,
		},
		"no table, Forward": {
			table: "absent", spoil: "SELECT 1", mend: ledgerDDL(t, "absent"), forward: true,
			says: `relation "absent" does not exist`,
		},
		"read-only": {
			table: "ro", spoil: ledgerDDL(t, "ro") + "; ALTER ROLE " + reader +
				" SET default_transaction_read_only = on; GRANT ALL ON ro TO " + reader,
			mend: "ALTER ROLE " + reader + " RESET default_transaction_read_only",
			says: "read-only transaction",
		},
		"no privilege": {
			table: "denied", spoil: ledgerDDL(t, "denied") + "; CREATE ROLE " + poor + " LOGIN SUPERUSER",
			mend: "GRANT ALL ON denied TO " + poor, says: "permission denied",
		},
		"small pool": {table: "small", spoil: ledgerDDL(t, "small"), mend: "SELECT 1", conns: 1, says: "inbox: begin"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 1)
			cfg, err := pgxpool.ParseConfig(db.DSN)
			require.NoError(t, err)
			switch name {
			case "read-only":
				db.Exec(t, "CREATE ROLE "+reader+" LOGIN SUPERUSER")
				cfg.ConnConfig.User = reader
			case "no privilege":
				cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
					_, err := c.Exec(ctx, "SET ROLE "+poor)
					return err
				}
			}
			db.Exec(t, c.spoil)
			if name == "no privilege" {
				db.Exec(t, "ALTER ROLE "+poor+" NOSUPERUSER")
			}
			if c.conns > 0 {
				cfg.MaxConns = c.conns
			}
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			in, err := inbox.New(pool, inbox.Options{Consumer: "billing", Table: c.table})
			require.NoError(t, err)
			var taken *pgxpool.Conn
			if c.conns > 0 {
				taken, err = pool.Acquire(t.Context())
				require.NoError(t, err)
			}
			var j journal
			handle := consumer.InTx(in, func(_ context.Context, _ pgx.Tx, m consumer.Message) error {
				j.add(m)
				return nil
			})
			if c.forward {
				handle = func(ctx context.Context, m consumer.Message) error {
					return in.Forward(ctx, m.Event(), time.Minute, func(context.Context) error { j.add(m); return nil })
				}
			}
			b.produce(t, record("k", "a"), record("k", "b"), record("k", "c"))
			opts := b.options()
			// A record that takes longer twice is a letter, on a busy machine also one that could be handled.
			opts.Attempts, opts.Budget, opts.Stall = 2, 5*time.Second, 200*time.Millisecond
			ready := startReady(t, opts, handle)
			require.Eventually(t, func() bool {
				err := ready()
				return err != nil && strings.Contains(err.Error(), c.says)
			}, 30*time.Second, 5*time.Millisecond)
			require.Empty(t, b.letters(t))
			require.Empty(t, j.ids())
			db.Exec(t, c.mend)
			// Only after the change is committed: a session that begins before it keeps the setting.
			db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+reader+"'")
			if taken != nil {
				taken.Release()
			}
			j.await(t, 3)
			require.Equal(t, []string{"a", "b", "c"}, j.ids())
			require.Empty(t, b.letters(t))
			require.Eventually(t, func() bool { return ready() == nil }, 30*time.Second, 5*time.Millisecond)
		})
	}
}

// Several letters in a row with one cause are hardly the records' fault.
//
// Bug (letters): A failure that met every record was taken for the fault of each. Cost: within an hour a missing column
// emptied a topic into the dead-letter topic, while Ready returned nil.
func TestLettersWithOneCausePauseThePartition(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	for _, id := range []string{"e-1", "e-2", "e-3", "e-4", "e-5"} {
		b.produce(t, record("k", id))
	}
	var j journal
	mended := make(chan struct{})
	opts := b.options()
	opts.Attempts, opts.Breaker = 2, 3
	ready := startReady(t, opts, func(_ context.Context, m consumer.Message) error {
		select {
		case <-mended:
			j.add(m)
			return nil
		default:
			return errors.New("event " + m.ID + `: column "vat" does not exist`)
		}
	})
	require.Eventually(t, func() bool {
		err := ready()
		return err != nil && strings.Contains(err.Error(), "the 3 dead letters before it have its cause")
	}, 30*time.Second, 5*time.Millisecond)
	require.Len(t, b.letters(t), 3)
	close(mended)
	j.await(t, 2)
	require.Equal(t, []string{"e-4", "e-5"}, j.ids())
	require.Len(t, b.letters(t), 3)
	require.Eventually(t, func() bool { return ready() == nil }, 30*time.Second, 5*time.Millisecond)
}

func ledgerDDL(t *testing.T, table string) string {
	ddl, err := inbox.Schema(inbox.Options{Table: table})
	require.NoError(t, err)
	return ddl
}

// startReady is start, and returns Ready.
func startReady(t *testing.T, opts consumer.Options, handle consumer.Handler) (ready func() error) {
	t.Helper()
	c, err := consumer.New(opts, handle)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c.Ready
}
