package setup

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// AwaitCaughtUp waits until the slot's reader has confirmed all that is written by now. It returns false if the reader
// has not done so within the limit, or if no session has read the slot for as long as start: a connector that waits for
// an operator tries again every few seconds.
func AwaitCaughtUp(ctx context.Context, dsn string, cfg Config, limit, start time.Duration) (done bool, err error) {
	cfg = cfg.WithDefaults()
	err = withServers(ctx, dsn, cfg, func(conn servers) error {
		end, written := conn.Conn, `SELECT pg_last_wal_replay_lsn()::text`
		if conn.primary != nil {
			end, written = conn.primary, `SELECT pg_current_wal_lsn()::text`
		}
		var text string
		if err := end.QueryRow(ctx, written).Scan(&text); err != nil {
			return postgres.QueryFault("server", err)
		}
		to, err := lsn.Parse(text)
		if err != nil {
			return err
		}
		unread := time.Now().Add(start)
		for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
			slot, err := postgres.LookupSlot(ctx, conn, cfg.Slot)
			if err != nil {
				return postgres.QueryFault(cfg.SlotSubject(), err)
			}
			if slot.ActivePID == 0 && !time.Now().Before(unread) {
				return nil
			}
			// Over WAL without events the slot may lag a little, see postgres.CheckpointStep.
			if done = slot.ActivePID != 0 && slot.ConfirmedFlush+postgres.CheckpointStep >= to; done {
				return nil
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(500 * time.Millisecond):
			}
		}
		return nil
	})
	return done, err
}
