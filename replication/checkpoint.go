package replication

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// A slot does not show that it was dropped and created again, or that something else moved it or read from it: its name
// and its plugin are the same, and the events in between are lost silently. So the confirmed position is stored first,
// in a table of the outbox's own database. The table needs no other service, is shared by all instances, and goes
// wherever the database goes, to a standby or into a backup.
//
// The rule is that nothing is confirmed to the slot that the table does not hold yet. A slot whose position is before
// the checkpoint misses nothing and at worst repeats; a slot whose position is past the checkpoint was moved by
// something else. The rule has no time limit: a table that is locked or full holds the slot back for as long as that
// lasts, and readiness, log and status report it (HeldBack). A slot that went on without the table would, after a
// crash, look as if it had been moved.
//
// A hot standby cannot be written. There the checkpoint is written on the primary, and the slot is confirmed up to the
// checkpoint that the standby has replayed. So the two still agree when that standby is promoted.
const (
	// beginTimeout bounds reading the table before the stream begins.
	beginTimeout = 10 * time.Second
	// checkpointPatience is how long the table cannot be written before the log says so: sooner than the connector
	// stops being ready for it, because the first question then is why.
	checkpointPatience = 5 * time.Second
)

// checkpoint stores the confirmed position of one slot. A nil checkpoint stores nothing and holds nothing back.
type checkpoint struct {
	cfg     *Config
	id      Identity      // of the stream, set before it starts
	off     atomic.Bool   // there is no table, or it may not be used
	stored  atomic.Uint64 // the position written down on the slot's server
	failing atomic.Pointer[checkpointFailure]

	mu       sync.Mutex
	far      bool // the slot is on a standby, the table is written on the primary
	near     *pgx.Conn
	primary  *pgx.Conn
	written  lsn.LSN       // on the primary
	numbered bool          // the table counts writes
	last     postgres.Mark // of the last write that this process knows of
	told     lsn.LSN       // the position up to which a failover's gap was logged

	begun Identity // of the last server on which it began: the confirmed position is one there

	// again: a stream began at the slot's position, since the row could not be used, and has not come to where the row
	// is. To go on at the row would leave events that were published again as the last ones of their keys.
	again  bool
	denied error // why the role may not use the table, as of the last stream's begin; nil: it may, or there is none

	lastRow *atomic.Uint64 // the stream's; nil before the first
}

// checkpointFailure is why nothing more could be written down since.
type checkpointFailure struct {
	since  time.Time
	stored uint64
	err    error
	logged bool // in the log
}

func newCheckpoint(cfg *Config) *checkpoint {
	if cfg.Checkpoint.Name == "" {
		return nil
	}
	return &checkpoint{cfg: cfg}
}

// compareSlot compares the slot with its row, before anything is streamed, and writes a new slot's row. It asks on the
// replication connection. If the row is ahead of the slot, the stream begins at the row's position.
func (cp *checkpoint) compareSlot(ctx context.Context, c *connection, id *Identity, slot postgres.Slot) (err error) {
	if cp == nil {
		return nil
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	known := cp.ownPosition(id)
	defer func() {
		if err == nil { // otherwise the confirmed position is still one of the server before
			cp.begun = *id
		}
	}()
	cp.id, cp.far, cp.written = *id, id.InRecovery, 0
	cp.failing.Store(nil)
	cp.off.Store(false)
	cp.denied = nil
	ctx, cancel := context.WithTimeoutCause(ctx, beginTimeout,
		fmt.Errorf("table %s does not answer within %s, is it locked?", cp.cfg.Checkpoint, beginTimeout))
	defer cancel()
	row, end, err := cp.read(ctx, c)
	if err != nil {
		return cp.skip(ctx, err)
	}
	id.WALEnd = max(id.WALEnd, end)
	cp.id.WALEnd = id.WALEnd
	if !cp.far { // on a hot standby the row is as old as the last replayed WAL, so the primary's is compared
		if err := cp.compareOwn(row); err != nil {
			return err
		}
	}
	position, near := slot.ConfirmedFlush, lsn.LSN(0)
	if row != nil {
		near = row.Position
		judged := *row
		judged.Position = max(judged.Position, known)
		if err := judged.Judge(cp.cfg.objects(), id.position(), slot); err != nil {
			return err
		}
		position = max(position, cp.reached(row))
	}
	if cp.far {
		cp.stored.Store(uint64(near))
		err = cp.beginFar(ctx, position)
	} else if _, execErr := c.Exec(ctx, cp.upsertSQL(position)).ReadAll(); execErr != nil {
		return cp.skip(ctx, execErr)
	} else {
		cp.stored.Store(uint64(position))
	}
	if err == nil && !cp.off.Load() {
		cp.startAt(id, row, position)
	}
	return err
}

// ownPosition is the position that this process itself has confirmed on the server, 0 if there is none: a slot up to
// there was not moved by anything else, whether or not the table could be written.
func (cp *checkpoint) ownPosition(id *Identity) lsn.LSN {
	if cp.begun.SystemID != id.SystemID || cp.begun.Timeline != id.Timeline {
		return 0
	}
	return cp.cfg.Confirmed()
}

// reached is how far the row's position is known to be published on the server's timeline. On a timeline that branched
// off the row's, that is the branch at most; if the branch is unknown, the row says nothing.
func (cp *checkpoint) reached(row *postgres.Checkpoint) lsn.LSN {
	if row.Timeline == cp.id.Timeline {
		return row.Position
	}
	for _, past := range cp.id.Past {
		if past.Timeline == row.Timeline {
			return min(row.Position, past.At)
		}
	}
	return 0
}

// startAt lets the stream begin at the row's position if that is ahead of the slot's. Before PostgreSQL 17 a server
// saves a slot's position when it writes a checkpoint of its own, and a crash brings back an older one; and whatever
// the version, the last standby status update may not have arrived. The row is durable, and part of the very log that
// it speaks of. A row that no numbered write has touched may be of an earlier version, which took over positions of
// another timeline.
func (cp *checkpoint) startAt(id *Identity, row *postgres.Checkpoint, position lsn.LSN) {
	cp.again = cp.again && position > id.ConfirmedFlush
	if row == nil || row.Writes == 0 || cp.again || position <= id.ConfirmedFlush || position > id.WALEnd {
		return
	}
	cp.cfg.Logger.Info("the slot is before what was confirmed; the stream starts at the checkpoint",
		zap.Stringer(logkey.ConfirmedFlush, id.ConfirmedFlush), zap.Stringer(logkey.Remembered, position),
		zap.Int32(logkey.Timeline, id.Timeline))
	id.ConfirmedFlush = position
}

// skip goes on without a checkpoint if there is no table, or none that this role may use: a database that was set up
// before checkpoints existed works as before.
func (cp *checkpoint) skip(ctx context.Context, err error) error {
	switch sqlstate.Of(err) {
	case "42P01", "42501", "3F000", "25006", "42703": // no table, no right, no schema, read only, another table
		cp.off.Store(true)
		if sqlstate.Of(err) == sqlstate.NotPermitted {
			cp.denied = err
		}
		if !cp.again { // once for a series of streams
			cp.cfg.Logger.Warn("a slot that is re-created or moved by hand would not be noticed: the table that "+
				"remembers its position cannot be used",
				zap.Stringer(logkey.Table, cp.cfg.Checkpoint), zap.Error(err))
		}
		cp.again = true
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return cp.cfg.queryError(ctx, err)
}

// limit is the position that may be reported to the slot. Both candidates are positions that may be confirmed, so the
// lesser is one.
func (cp *checkpoint) limit(confirmed lsn.LSN) lsn.LSN {
	if cp == nil || cp.off.Load() {
		return confirmed
	}
	return min(confirmed, lsn.LSN(cp.stored.Load()))
}

func (cp *checkpoint) succeeded(at lsn.LSN) {
	was := cp.failing.Swap(nil)
	if cp.off.Swap(false) || was != nil && was.logged {
		cp.cfg.Logger.Info("the slot's position is remembered again", zap.Stringer(logkey.At, at))
	}
}

// failed takes note of a failed attempt. The time since the position last moved counts, not the attempts: one of them
// may take a moment or several seconds.
func (cp *checkpoint) failed(err error) {
	switch sqlstate.Of(err) {
	case "42P01", "3F000": // it was dropped: nothing is left that the slot could be held against
		if !cp.off.Swap(true) {
			cp.failing.Store(nil)
			cp.cfg.Logger.Warn("the table that remembers the slot's position no longer exists: a slot that is "+
				"re-created or "+
				"moved by hand would not be noticed",
				zap.Stringer(logkey.Table, cp.cfg.Checkpoint))
		}
		return
	}
	f := checkpointFailure{since: time.Now(), stored: cp.stored.Load(), err: err}
	if was := cp.failing.Load(); was != nil && was.stored == f.stored {
		f.since, f.logged = was.since, was.logged
	}
	if !f.logged && time.Since(f.since) >= checkpointPatience {
		f.logged = true
		cp.cfg.Logger.Warn("the slot's position cannot be written down, so the slot is held back and keeps WAL "+
			"until it can",
			append(remedyFields(cp.heldBack(err)), zap.Stringer(logkey.Table, cp.cfg.Checkpoint),
				zap.Time(logkey.Since, f.since), zap.Error(err))...)
	}
	cp.failing.Store(&f)
}

// HeldBack reports since when, and why, confirmed positions are not reported to the slot: the table that remembers it
// cannot be written. Nil if all is well.
func (s *Stream) HeldBack() (since time.Time, why error) {
	if s.checkpoint == nil {
		return time.Time{}, nil
	}
	f := s.checkpoint.failing.Load()
	if f == nil {
		return time.Time{}, nil
	}
	return f.since, s.checkpoint.heldBack(f.err)
}

// remedyFields are the log's fields for the remedy.
func remedyFields(err error) []zap.Field {
	_, r := fault.Split(err)
	return []zap.Field{zap.String(logkey.Next, r.Next), zap.Strings(logkey.Commands, r.Commands)}
}

// role is the role that writes the table, for a GRANT that can be pasted.
func (cp *checkpoint) role() string {
	read := cp.cfg.DSN
	if cp.cfg.PrimaryDSN != nil {
		read = cp.cfg.PrimaryDSN
	}
	if read == nil {
		return "ROLE"
	}
	dsn, err := read()
	if err != nil {
		return "ROLE"
	}
	parsed, err := postgres.ParseConfig(dsn)
	if err != nil || parsed.User == "" {
		return "ROLE"
	}
	return identifier.Quote(parsed.User)
}

// grant is the remedy for a role without rights on the table.
func (cp *checkpoint) grant() fault.Remedy {
	return fault.Do("Grant the rights to the connector's role.", "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE "+
		cp.cfg.Checkpoint.SQL()+" TO "+cp.role()+";")
}

// heldBack names the remedy for a table that cannot be written.
func (cp *checkpoint) heldBack(err error) error {
	f := &fault.Error{
		Kind: fault.Retry, Object: "table " + cp.cfg.Checkpoint.String(),
		Err: fmt.Errorf("the slot's position cannot be written down: %w", err),
	}
	off := fault.Do("Or run without a checkpoint from the next start on: postgres.checkpoint: off.")
	var blocked *postgres.Blocked
	switch code := sqlstate.Of(err); {
	case errors.As(err, &blocked):
		f.With(blocked.By.Remedy().Then(off))
	case lockedOut(err):
		f.With(fault.Do("The session that held the table is not known. See which sessions do.",
			fmt.Sprintf("SELECT l.pid, a.usename, a.application_name, a.state, a.xact_start FROM pg_locks l JOIN "+
				"pg_stat_activity a USING (pid) WHERE l.relation = %s::regclass AND l.granted;",
				identifier.QuoteLiteral(cp.cfg.Checkpoint.SQL()))).Then(off))
	case code == sqlstate.NotPermitted:
		f.With(cp.grant().Then(off))
	case code == "53100":
		f.Next = "Make room on the server's disk."
	case code == "":
		f.Next = "See whether the server answers other sessions than the stream's; look at postgres.primary_dsn, too."
	default:
		f.With(fault.Do("See what the server says, and whether the table is as `cdc-outbox setup` makes it.").
			Then(off))
	}
	return f
}
