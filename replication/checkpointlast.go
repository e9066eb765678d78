package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// lastTimeout bounds the write that follows the end of a stream.
const lastTimeout = time.Second

// leave writes down what was confirmed since the last write, whatever has ended the stream: the next start would repeat
// it. A stream that ended in good order has written it (storeLast).
func (s *Stream) leave() {
	s.stopStoring()
	s.storing.Wait()
	cp, confirmed := s.checkpoint, s.confirmed()
	if cp == nil || cp.off.Load() {
		return
	}
	if kept := lsn.LSN(cp.stored.Load()); confirmed <= kept || lsn.LSN(s.lastRow.Load()) <= kept {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTimeout)
	defer cancel()
	if err := cp.storeAfter(ctx, confirmed); err != nil {
		s.cfg.Logger.Debug("the last confirmed position was not written down", zap.Error(err))
	}
}

// storeAfter writes a position down although the session that had the slot may have ended. The write counts only over
// the connection at hand, as another one may lead to another server, and if the row is as this process left it and no
// other session has the slot.
func (cp *checkpoint) storeAfter(ctx context.Context, at lsn.LSN) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.far || !cp.numbered || cp.near == nil || cp.near.IsClosed() {
		return errors.New("there is no connection for it")
	}
	var text string
	var updated time.Time
	var writes int64
	err := cp.near.QueryRow(ctx, fmt.Sprintf(`UPDATE %s SET position = greatest(position, $2::pg_lsn),
		updated_at = now(), writes = writes + 1 WHERE slot = $1::text AND system_id = $3::text AND timeline = $4::int
		AND writes = $5::bigint AND coalesce((SELECT active_pid FROM pg_catalog.pg_replication_slots
			WHERE slot_name = $1::text), %[2]d) = %[2]d RETURNING position::text, updated_at, writes`,
		cp.cfg.Checkpoint.SQL(), cp.id.BackendPID), cp.cfg.Slot, at.String(), cp.id.SystemID, cp.id.Timeline,
		cp.last.Writes).Scan(&text, &updated, &writes)
	if err != nil {
		return err
	}
	kept, err := lsn.Parse(text)
	if err != nil {
		return err
	}
	cp.stored.Store(max(cp.stored.Load(), uint64(kept)))
	cp.mark(kept, writes, updated)
	cp.cfg.Logger.Debug("the last confirmed position was written down", zap.Stringer(logkey.At, kept))
	return nil
}
