package replication

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// Mark is a record, kept outside of the server, of one write of the checkpoint.
type Mark = postgres.Mark

// MarkOf makes a mark. RestoredFault is for a server that a mark shows to be put back.
var MarkOf, RestoredFault = postgres.MarkOf, postgres.RestoredFault

// mark takes note of a write, and passes it on to be kept outside of the server. The caller holds cp.mu.
func (cp *checkpoint) mark(position lsn.LSN, writes int64, at time.Time) {
	published := cp.last.Published
	if cp.lastRow != nil && position > 0 {
		published = max(published, min(lsn.LSN(cp.lastRow.Load()), position-1))
	}
	cp.last = postgres.Mark{
		SystemID: cp.id.SystemID, Timeline: cp.id.Timeline, Writes: writes, Position: position, Published: published,
		At: at,
	}
	if cp.cfg.Marked != nil && writes > 0 {
		cp.cfg.Marked(cp.last)
	}
}

// follow has marks say how far the stream has passed rows on.
func (cp *checkpoint) follow(lastRow *atomic.Uint64) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.lastRow = lastRow
}

// compareOwn compares the row with this process's own last write of it. row is nil if there is none.
func (cp *checkpoint) compareOwn(row *postgres.Checkpoint) error {
	if cp.last.SystemID != cp.id.SystemID {
		return nil
	}
	if err := cp.judge(cp.last, "this connector", row); err != nil {
		return err
	}
	// A new row, and the row of a standby that lagged, count from their own numbers; Compare raises them.
	writes := int64(0)
	if row != nil {
		writes = row.Writes
	}
	cp.last.Writes = min(cp.last.Writes, writes)
	return nil
}

// judge refuses a server that was put back, and reports a failover that lost events.
func (cp *checkpoint) judge(m postgres.Mark, holder string, row *postgres.Checkpoint) error {
	if row == nil {
		row = &postgres.Checkpoint{Position: cp.id.slot.ConfirmedFlush}
	}
	if !cp.numbered {
		m.Writes = 0
	}
	server := cp.id.marked(cp.cfg)
	server.Row = row
	failedOver, err := m.Judge(cp.cfg.objects(), holder, server)
	if failedOver && m.Published > cp.told {
		cp.told = m.Published
		cp.cfg.reportFailover(m, &cp.id)
	}
	return err
}

// marked is the server as marks are compared with it, without a checkpoint.
func (id *Identity) marked(cfg *Config) postgres.MarkedServer {
	return postgres.MarkedServer{
		ServerPosition: id.position(), InRecovery: id.InRecovery, HotStandby: cfg.HotStandby, Version: id.ServerVersion,
		Past: id.Past, Slot: id.slot,
	}
}

// reportFailover is for a promotion of a standby that lagged.
func (c *Config) reportFailover(m postgres.Mark, id *Identity) {
	c.Logger.Error("the server is a standby that was promoted before it had everything that was published; events "+
		"after the promotion's position are in Kafka and not in this server's tables",
		zap.Stringer(logkey.Position, m.Published), zap.Int32(logkey.Timeline, id.Timeline),
		zap.Stringer(logkey.ConfirmedFlush, id.slot.ConfirmedFlush))
}

// Compare relates the server to the mark that holder keeps of the slot's checkpoint outside of it, and from then on
// counts the writes of the row. An error is a *fault.Error: Operator if the server was put back, or Retry.
func (s *Stream) Compare(ctx context.Context, kept Mark, holder string) error {
	cp := s.checkpoint
	if err := cp.usedElsewhere(kept, holder); err != nil {
		return err
	}
	if cp == nil || cp.off.Load() {
		failedOver, err := kept.Judge(s.cfg.objects(), holder, s.identity.marked(s.cfg))
		if failedOver {
			s.cfg.reportFailover(kept, &s.identity)
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	return cp.compare(ctx, kept, holder)
}

// usedElsewhere refuses a stream that begins at the slot's position since the role has no right to a checkpoint that is
// in use, as the mark shows. The checkpoint may be ahead of the slot: events in between would be published again, and
// if this process then ends, one that may read the checkpoint begins after them. They stay the last of their keys.
func (cp *checkpoint) usedElsewhere(kept Mark, holder string) error {
	if cp == nil || kept.Writes == 0 {
		return nil
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if !cp.off.Load() || cp.denied == nil {
		return nil
	}
	f := &fault.Error{
		Kind: fault.Retry, Object: "table " + cp.cfg.Checkpoint.String(), At: kept.Position.String(),
		Err: fmt.Errorf("%s knows it as the checkpoint of slot %q, and this role may not use it: a stream from the "+
			"slot's own position could leave older events as the last of their keys: %w",
			holder, cp.cfg.Slot, cp.denied),
	}
	f.With(cp.grant())
	return f
}

// compare reads the row again, after kept was read: the row is written first, so another instance that has just lost
// the slot cannot make it look older than it is. If that instance has moved the row meanwhile, the error is a Retry and
// the next stream starts there.
func (cp *checkpoint) compare(ctx context.Context, kept postgres.Mark, holder string) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	conn, dsn := &cp.near, cp.cfg.DSN
	if cp.far {
		conn, dsn = &cp.primary, cp.cfg.PrimaryDSN
	}
	err := cp.open(ctx, conn, dsn)
	var row *postgres.Checkpoint
	if err == nil {
		row, err = cp.readAgain(ctx, *conn)
	}
	if err != nil {
		return cp.skip(ctx, err)
	}
	if err := cp.judge(kept, holder, row); err != nil {
		return err
	}
	cp.adopt(kept)
	if !cp.numbered {
		return nil
	}
	at := lsn.LSN(0)
	if err = cp.raise(ctx, *conn, row); err == nil {
		at, err = cp.update(ctx, *conn, lsn.LSN(cp.stored.Load()))
	}
	switch {
	case err != nil:
		return cp.skip(ctx, err)
	case at > lsn.LSN(cp.stored.Load()) && !cp.far:
		return &fault.Error{
			Kind: fault.Retry, Object: "table " + cp.cfg.Checkpoint.String(), At: at.String(),
			Err: errors.New("the instance that held the slot wrote the row after this stream had begun"),
		}
	}
	return nil
}

// adopt goes on from the kept mark and from this process's own last one: the next number is higher, and published
// positions stay published.
func (cp *checkpoint) adopt(kept postgres.Mark) {
	cp.last.Writes = max(cp.last.Writes, kept.Writes)
	position := max(1, lsn.LSN(cp.stored.Load()))
	if kept == (postgres.Mark{}) {
		kept = cp.last
		kept.Published = max(kept.Published, position-1) // unknown, so all of it
	}
	cp.last.Published = max(cp.published(cp.last, position), cp.published(kept, position))
}

// published is the mark's published position on this server, whose checkpoint is at position. One of another timeline
// may lie beyond the branch.
func (cp *checkpoint) published(m postgres.Mark, position lsn.LSN) lsn.LSN {
	if m.SystemID == cp.id.SystemID && m.Timeline == cp.id.Timeline {
		return m.Published
	}
	return min(m.Published, position-1)
}

// raise brings the row of a standby that lagged, and a row without a number, to the last number that is known. An
// earlier version may have taken over the position of a row without a number from another timeline, so such a row
// begins at the slot's position, which nothing has moved since the stream began.
func (cp *checkpoint) raise(ctx context.Context, conn *pgx.Conn, row *postgres.Checkpoint) error {
	if row == nil || row.Writes >= cp.last.Writes && row.Writes > 0 {
		return nil
	}
	fresh := row.Writes == 0 && !cp.far
	set := "writes = greatest(writes, $2::bigint)"
	if fresh {
		set += fmt.Sprintf(", position = '%s'", cp.id.slot.ConfirmedFlush)
	}
	_, err := conn.Exec(ctx, fmt.Sprintf(`UPDATE %s SET %s WHERE slot = $1::text AND writes = $3::bigint`,
		cp.cfg.Checkpoint.SQL(), set), cp.cfg.Slot, cp.last.Writes, row.Writes)
	if err == nil && fresh {
		cp.stored.Store(uint64(cp.id.slot.ConfirmedFlush))
	}
	return err
}

// readAgain reads the row over an ordinary connection.
func (cp *checkpoint) readAgain(ctx context.Context, conn *pgx.Conn) (*postgres.Checkpoint, error) {
	var text []byte
	err := conn.QueryRow(ctx, fmt.Sprintf(`SELECT to_jsonb(m)::text FROM %s m WHERE slot = $1::text`,
		cp.cfg.Checkpoint.SQL()), cp.cfg.Slot).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row, err := cp.parse(text)
	if err == nil && row.SystemID != cp.id.SystemID {
		err = &fault.Error{
			Kind: fault.Retry, Object: "table " + cp.cfg.Checkpoint.String(),
			Err: errors.New("the slot's row is another cluster's than the stream's"),
		}
	}
	return row, err
}
