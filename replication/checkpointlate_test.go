package replication

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestCheckpointIsWrittenByTheHolderOnly: a write that reaches the row when the session no longer holds the slot comes
// too late, because the slot's next holder has read the row.
//
// Bug (checkpoint): A write of the checkpoint could reach the row after the next holder of the slot had read it. Cost:
// after a crash of that holder in the middle of the repeat, an old event stayed the last record of a key until its next
// event. Also: `TestCheckpointThatWasWrittenLate` in `replication`.
func TestCheckpointIsWrittenByTheHolderOnly(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	s.Config.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
	s.Exec(t, statetables.CheckpointDDL(s.Config.Checkpoint))
	o := s.marking()
	require.NoError(t, Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
		require.NoError(t, st.Compare(ctx, o.kept(), "Kafka"))
		before := s.remembered(t)
		require.NoError(t, st.checkpoint.store(ctx, before+8), "it holds the slot")
		require.Equal(t, before+8, s.remembered(t))
		s.Exec(t, `SELECT pg_terminate_backend(active_pid, 60000) FROM pg_replication_slots WHERE slot_name = '`+
			s.Config.Slot+`'`)
		require.ErrorContains(t, st.checkpoint.store(ctx, before+16), "does not hold the slot any more")
		require.Equal(t, before+8, s.remembered(t))
		s.Exec(t, `DELETE FROM cdc_outbox_slots`)
		require.ErrorContains(t, st.checkpoint.store(ctx, before+16), "does not hold the slot any more")
		s.Exec(t, `DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM cdc_outbox_slots); END $$`)
		return nil
	}))
}

// TestCheckpointThatWasWrittenLate: what an earlier holder of the slot wrote after the stream began, or is still
// writing, is where the stream has to start.
func TestCheckpointThatWasWrittenLate(t *testing.T) {
	for name, underWay := range map[string]bool{"committed": false, "under way": true} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, testkit.Postgres(t))
			s.Config.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
			s.Exec(t, statetables.CheckpointDDL(s.Config.Checkpoint))
			o := s.marking()
			s.insert(t)
			var late lsn.LSN
			streams := 0
			require.NoError(t, Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
				if streams++; streams == 2 {
					require.NoError(t, st.Compare(ctx, o.kept(), "Kafka"))
					require.Equal(t, late, st.Identity().ConfirmedFlush)
					return st.Finish(ctx)
				}
				conn, err := s.Connect(ctx, s.Database.Name)
				require.NoError(t, err)
				defer conn.Close(ctx)
				tx, err := conn.Begin(ctx)
				require.NoError(t, err)
				var text string
				require.NoError(t, tx.QueryRow(ctx, `UPDATE cdc_outbox_slots SET writes = writes + 1,
					position = pg_current_wal_flush_lsn() RETURNING position::text`).Scan(&text))
				late, err = lsn.Parse(text)
				require.NoError(t, err)
				if underWay {
					committed := make(chan error)
					time.AfterFunc(300*time.Millisecond, func() { committed <- tx.Commit(ctx) })
					defer func() { require.NoError(t, <-committed) }()
				} else {
					require.NoError(t, tx.Commit(ctx))
				}
				err = st.Compare(ctx, o.kept(), "Kafka")
				require.Equal(t, fault.Retry, fault.KindOf(err))
				require.ErrorContains(t, err, "wrote the row after this stream had begun")
				return err
			}))
			require.Equal(t, 2, streams)
		})
	}
}
