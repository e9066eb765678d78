package replication

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// All WAL senders in use passes: the stream is tried again, and says what it waits for. A server without a free slot
// needs an operator.
func TestVersionsShortage(t *testing.T) {
	db := testkit.DedicatedPostgres(t, pgserver.Options{
		Settings: map[string]string{"max_wal_senders": "1", "max_replication_slots": "2"},
	})
	s := newSource(t, db)
	taken, err := pgconn.Connect(t.Context(), db.DSN+"&replication=database")
	require.NoError(t, err)
	defer func() { _ = taken.Close(context.Background()) }()
	waiting := make(chan error, 100)
	s.Config.OnState = func(st State) {
		if st.Phase == Waiting {
			select {
			case waiting <- st.Err:
			default:
			}
		}
	}
	streaming, done := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- Run(ctx, s.Config, func(ctx context.Context, _ *Stream) error {
			close(streaming)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	short := <-waiting
	require.Equal(t, fault.Retry, fault.KindOf(short))
	require.ErrorContains(t, short, "max_wal_senders")
	require.NoError(t, taken.Close(context.Background()))
	<-streaming
	cancel()
	require.NoError(t, <-done)

	db.Exec(t, `SELECT pg_create_physical_replication_slot('other')`)
	err = setup.Ensure(t.Context(), db.DSN, setup.Config{
		Objects: postgres.Objects{
			Slot: db.Slot + "_new", Publication: db.Publication + "_new",
			Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		},
	}, true)
	var f *fault.Error
	require.True(t, errors.As(err, &f), err)
	require.Equal(t, fault.Operator, f.Kind)
	require.Contains(t, f.Error()+f.Remedy().String(), "max_replication_slots")
}
