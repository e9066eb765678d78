package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// A slot does not tell that it was dropped and made anew, nor that somebody moved it or read from it: its name and its
// plugin are the same, and what lies between is lost without a word. So what was confirmed is written down first, in a
// table of the outbox's own database: it needs no other service, is shared by all instances, and goes wherever the
// database goes, to a standby or into a backup.
//
// The rule is that the slot is told of nothing that the table does not hold yet. A slot that stands behind the remembered
// position has nothing missing, at worst repeats; one that stands before it was moved by somebody else. The rule has no
// limit of time: a table that is locked or full holds the slot back for as long as that lasts, which readiness, log and
// status tell (HeldBack). A slot that had gone on without would, after a crash, look as if it had been moved.
//
// On a standby nothing can be written. There the position is written on the primary, and the slot is told what the
// standby has replayed of it: so the two still go together when that standby is promoted.
const (
	// beginTimeout bounds looking at the table before the stream begins.
	beginTimeout = 10 * time.Second
	// memoryPatience is from when on the log tells of a table that cannot be written.
	memoryPatience = 15 * time.Second
)

// memory keeps the remembered position of one slot. A nil memory remembers nothing and holds nothing back.
type memory struct {
	cfg     *Config
	id      Identity      // of the stream, set before it starts
	off     atomic.Bool   // there is no table, or it may not be used
	kept    atomic.Uint64 // what is written down, where the slot is
	failing atomic.Pointer[memoryFailure]

	mu      sync.Mutex
	far     bool // the slot is on a standby, the table is written on the primary
	near    *pgx.Conn
	primary *pgx.Conn
	written lsn.LSN // on the primary
}

// memoryFailure is why nothing more could be written down since.
type memoryFailure struct {
	since time.Time
	kept  uint64
	err   error
	told  bool // in the log
}

func newMemory(cfg *Config) *memory {
	if cfg.Checkpoint.Name == "" {
		return nil
	}
	return &memory{cfg: cfg}
}

// begin compares the slot with what is remembered of it, before anything is streamed, and takes a new one down. It asks on
// the replication connection.
func (m *memory) begin(ctx context.Context, c *connection, id Identity, slot postgres.Slot) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.far, m.written = id, id.InRecovery, 0
	m.failing.Store(nil)
	m.off.Store(false)
	ctx, cancel := context.WithTimeoutCause(ctx, beginTimeout, fmt.Errorf("table %s does not answer within %s, is it locked?", m.cfg.Checkpoint, beginTimeout))
	defer cancel()
	row, end, err := m.read(ctx, c)
	if err != nil {
		return m.without(ctx, err)
	}
	id.WALEnd = max(id.WALEnd, end)
	position, near := slot.ConfirmedFlush, lsn.LSN(0)
	if row != nil {
		kept := row.Position
		if err := row.Judge(m.cfg.objects(), id.position(), slot); err != nil {
			return err
		}
		if slot.ConfirmedFlush < kept {
			m.cfg.Logger.Info("the slot stands behind what was confirmed; what lies between may come again",
				zap.Stringer("confirmed_flush_lsn", slot.ConfirmedFlush), zap.Stringer("remembered", kept), zap.Int32(logkey.Timeline, id.Timeline))
		}
		position, near = max(position, kept), kept
	}
	if m.far {
		m.kept.Store(uint64(near))
		return m.beginFar(ctx, position)
	}
	if _, err := c.Exec(ctx, m.takeDown(position)).ReadAll(); err != nil {
		return m.without(ctx, err)
	}
	m.kept.Store(uint64(position))
	return nil
}

// takeDown is the statement that begins a row, or goes on with it. It takes over a row of another timeline.
func (m *memory) takeDown(position lsn.LSN) string {
	return fmt.Sprintf(`INSERT INTO %[1]s (slot, system_id, timeline, position) VALUES (%[2]s, %[3]s, %[4]d, '%[5]s')
		ON CONFLICT (slot) DO UPDATE SET timeline = %[4]d, position = greatest(%[1]s.position, '%[5]s'), updated_at = now()`,
		m.cfg.Checkpoint.SQL(), identifier.QuoteLiteral(m.cfg.Slot), identifier.QuoteLiteral(m.id.SystemID), m.id.Timeline, position)
}

// read returns the slot's row, nil where there is none, and where the log ends by then.
func (m *memory) read(ctx context.Context, c *connection) (*postgres.Checkpoint, lsn.LSN, error) {
	fields, err := c.query(ctx, fmt.Sprintf(`SELECT (SELECT to_jsonb(m)::text FROM %s m WHERE slot = %s),
		CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END`,
		m.cfg.Checkpoint.SQL(), identifier.QuoteLiteral(m.cfg.Slot)), 2)
	if err != nil {
		return nil, 0, err
	}
	end, err := lsn.Parse(string(fields[1]))
	if err != nil {
		return nil, 0, err
	}
	if fields[0] == nil {
		return nil, end, nil
	}
	var row struct {
		SystemID string `json:"system_id"`
		Timeline int32  `json:"timeline"`
		Position string `json:"position"`
	}
	if err := json.Unmarshal(fields[0], &row); err != nil {
		return nil, 0, m.garbled(err)
	}
	kept, err := lsn.Parse(row.Position)
	if err != nil {
		return nil, 0, m.garbled(fmt.Errorf("its position of this slot is %q", row.Position))
	}
	return &postgres.Checkpoint{SystemID: row.SystemID, Timeline: row.Timeline, Position: kept}, end, nil
}

// garbled is for a row that no connector has written.
func (m *memory) garbled(err error) error {
	return &fault.Error{Kind: fault.Operator, Object: "table " + m.cfg.Checkpoint.String(), Err: fmt.Errorf("it is not one that remembers slots, or was edited: %w", err),
		Next: "Set postgres.checkpoint to a table that `cdc-outbox setup` creates. Where it is that one, take the slot for where it was left:\ncdc-outbox slot accept"}
}

// without goes on without a memory where there is no table, or none that this role may use: a database that was set up
// before there was one works as before.
func (m *memory) without(ctx context.Context, err error) error {
	switch sqlstate.Of(err) {
	case "42P01", "42501", "3F000", "25006", "42703": // no table, no right, no schema, read only, another table
		m.off.Store(true)
		m.cfg.Logger.Warn("a slot that is made anew or moved by hand would not be noticed: the table that remembers its position cannot be used",
			zap.Stringer(logkey.Table, m.cfg.Checkpoint), zap.Error(err))
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return m.cfg.queryError(ctx, err)
}

// limit is how much of what is confirmed the slot may be told. Each of the two is a position that may be confirmed, so the
// lesser is one.
func (m *memory) limit(confirmed lsn.LSN) lsn.LSN {
	if m == nil || m.off.Load() {
		return confirmed
	}
	return min(confirmed, lsn.LSN(m.kept.Load()))
}

func (m *memory) succeeded(at lsn.LSN) {
	was := m.failing.Swap(nil)
	if m.off.Swap(false) || was != nil && was.told {
		m.cfg.Logger.Info("the slot's position is remembered again", zap.Stringer(logkey.At, at))
	}
}

// failed takes note of an attempt that came to nothing. What counts is the time since the position last moved, not the
// attempts: one of them may take a moment or several seconds.
func (m *memory) failed(err error) {
	switch sqlstate.Of(err) {
	case "42P01", "3F000": // it was dropped: nothing is left that the slot could be held against
		if !m.off.Swap(true) {
			m.failing.Store(nil)
			m.cfg.Logger.Warn("the table that remembers the slot's position is gone: a slot that is made anew or moved by hand would not be noticed",
				zap.Stringer(logkey.Table, m.cfg.Checkpoint))
		}
		return
	}
	f := memoryFailure{since: time.Now(), kept: m.kept.Load(), err: err}
	if was := m.failing.Load(); was != nil && was.kept == f.kept {
		f.since, f.told = was.since, was.told
	}
	if !f.told && time.Since(f.since) >= memoryPatience {
		f.told = true
		m.cfg.Logger.Warn("the slot's position cannot be written down, so the slot is held back and keeps WAL until it can",
			zap.Stringer(logkey.Table, m.cfg.Checkpoint), zap.Time("since", f.since), zap.Error(err))
	}
	m.failing.Store(&f)
}

// HeldBack tells since when, and why, the slot is not told what is confirmed: the table that remembers it cannot be
// written. Nil where all is well.
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

// heldBack names what can be done about a table that cannot be written.
func (m *memory) heldBack(err error) error {
	f := &fault.Error{Kind: fault.Retry, Object: "table " + m.cfg.Checkpoint.String(), Err: fmt.Errorf("the slot's position cannot be written down: %w", err)}
	const off = "\n-- or do without it from the next start on: postgres.checkpoint: off"
	switch sqlstate.Of(err) {
	case "57014", "55P03", "40P01": // statement_timeout, lock_not_available, deadlock
		f.Next = fmt.Sprintf("-- who holds it, and how to end that:\nSELECT l.pid, a.usename, a.application_name, a.state, a.xact_start FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = %s::regclass AND l.granted;\nSELECT pg_terminate_backend(pid);",
			identifier.QuoteLiteral(m.cfg.Checkpoint.SQL())) + off
	case "42501":
		f.Next = "-- to the role in postgres.dsn:\nGRANT SELECT, INSERT, UPDATE, DELETE ON TABLE " + m.cfg.Checkpoint.SQL() + " TO …;" + off
	case "53100":
		f.Next = "Make room on the server's disk."
	case "":
		f.Next = "See whether the server answers other sessions than the stream's, and postgres.primary_dsn where that is set."
	default:
		f.Next = "See what the server says, and whether the table is as `cdc-outbox setup` makes it." + off
	}
	return f
}
