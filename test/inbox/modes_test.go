package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// The begin travels with the claim in each way in which pgx sends statements; some of them are for poolers.
func TestEachModeOfStatements(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, opts inbox.Options) {
				b := newBed(t)
				cfg, err := pgxpool.ParseConfig(b.DSN)
				require.NoError(t, err)
				cfg.MaxConns, cfg.ConnConfig.DefaultQueryExecMode = 1, mode
				pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
				require.NoError(t, err)
				t.Cleanup(pool.Close)
				in, err := inbox.New(pool, opts)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, in.Handle(ctx, inbox.Event{ID: "a"}, effect("a", "")))
				require.ErrorIs(t, in.Handle(ctx, inbox.Event{ID: "a"}, effect("a", "")), inbox.ErrDuplicate)
				bad := errors.New("bad event")
				err = in.Handle(ctx, inbox.Event{ID: "b"}, func(context.Context, pgx.Tx) error { return bad })
				require.ErrorIs(t, err, bad)
				several := []inbox.Event{{ID: "a"}, {ID: "b"}, {ID: "c"}}
				require.NoError(t, in.HandleBatch(ctx, several, effects(several)))
				require.ErrorIs(t, in.HandleBatch(ctx, several, effects(several)), inbox.ErrDuplicate)
				require.Equal(t, 3, b.count(t, "effects"))
				_, err = pool.Exec(ctx, "ALTER TABLE processed_events RENAME TO elsewhere")
				require.NoError(t, err)
				require.ErrorIs(t, in.Handle(ctx, inbox.Event{ID: "d"}, effect("d", "")), inbox.ErrLedger)
				_, err = pool.Exec(ctx, "ALTER TABLE elsewhere RENAME TO processed_events")
				require.NoError(t, err)
				require.NoError(t, in.Handle(ctx, inbox.Event{ID: "d"}, effect("d", "")))
				require.Equal(t, 4, b.count(t, "effects"))
			})
		})
	}
}
