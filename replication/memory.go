package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
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
// position has nothing missing, at worst repeats; one that stands before it was moved by somebody else.
const (
	// memoryInterval is how often what is confirmed is written down, while it moves.
	memoryInterval = time.Second
	// memoryFirst is when it begins, growing from there: a process that is killed again and again has to get on all the same.
	memoryFirst = 50 * time.Millisecond
	// memoryStep is what WAL without events has to amount to before it is written down. It is more than writing it down
	// adds to the WAL, or an idle database would never come to rest.
	memoryStep = 512
	// memoryPatience is how long the slot is held back by a table that cannot be written. WAL that piles up behind it
	// would be worse than a false alarm at the next start.
	memoryPatience = 15 * time.Second
)

// memory keeps the remembered position of one slot. A nil memory remembers nothing and holds nothing back.
type memory struct {
	cfg   *Config
	id    Identity      // of the stream, set before it starts
	off   atomic.Bool   // there is no table, or it may not be written
	kept  atomic.Uint64 // what is written down
	since time.Duration // for how long it could not be

	mu   sync.Mutex
	conn *pgx.Conn
}

func newMemory(cfg *Config) *memory {
	if cfg.Memory.Name == "" {
		return nil
	}
	return &memory{cfg: cfg}
}

// remembered is a row of the table.
type remembered struct {
	SystemID string `json:"system_id"`
	Timeline int32  `json:"timeline"`
	Position string `json:"position"`
}

// begin compares the slot with what is remembered of it, before anything is streamed, and takes a new one down. It asks on
// the replication connection.
func (m *memory) begin(ctx context.Context, c *connection, id Identity, slot SlotInfo) error {
	if m == nil {
		return nil
	}
	m.id = id
	row, err := m.read(ctx, c)
	if err != nil {
		return err
	}
	if m.off.Load() {
		return nil
	}
	position := slot.ConfirmedFlush
	if row != nil {
		kept, err := pglogrepl.ParseLSN(row.Position)
		if err != nil {
			return m.cfg.retry(fmt.Errorf("read %s: %w", m.cfg.Memory, err))
		}
		if err := m.judge(*row, kept, id, slot); err != nil {
			return err
		}
		if slot.ConfirmedFlush < kept {
			m.cfg.Logger.Info("the slot stands behind what was confirmed; what lies between may come again",
				zap.Stringer("confirmed_flush_lsn", slot.ConfirmedFlush), zap.Stringer("remembered", kept), zap.Int32("timeline", id.Timeline))
		}
		position = max(position, kept)
	}
	err = m.exec(ctx, c, fmt.Sprintf(`INSERT INTO %[1]s (slot, system_id, timeline, position) VALUES (%[2]s, %[3]s, %[4]d, '%[5]s')
		ON CONFLICT (slot) DO UPDATE SET timeline = %[4]d, position = greatest(%[1]s.position, '%[5]s'), updated_at = now()`,
		m.cfg.Memory.SQL(), QuoteLiteral(m.cfg.Slot), QuoteLiteral(id.SystemID), id.Timeline, position))
	if err != nil {
		return err
	}
	m.kept.Store(uint64(position))
	return nil
}

func (m *memory) read(ctx context.Context, c *connection) (*remembered, error) {
	m.off.Store(false)
	results, err := c.Exec(ctx, fmt.Sprintf("SELECT to_jsonb(m)::text FROM %s m WHERE slot = %s",
		m.cfg.Memory.SQL(), QuoteLiteral(m.cfg.Slot))).ReadAll()
	if err != nil {
		return nil, m.without(ctx, err)
	}
	if len(results) != 1 || len(results[0].Rows) == 0 {
		return nil, nil
	}
	var row remembered
	if err := json.Unmarshal(results[0].Rows[0][0], &row); err != nil {
		return nil, m.cfg.retry(fmt.Errorf("read %s: %w", m.cfg.Memory, err))
	}
	return &row, nil
}

func (m *memory) exec(ctx context.Context, c *connection, sql string) error {
	_, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		return m.without(ctx, err)
	}
	return nil
}

// without goes on without a memory where there is no table, or none that this role may use: a database that was set up
// before there was one works as before.
func (m *memory) without(ctx context.Context, err error) error {
	switch adminSQLState(err) {
	case "42P01", "42501", "3F000", "25006", "42703": // no table, no right, no schema, read only, another table
		m.off.Store(true)
		m.cfg.Logger.Warn("a slot that is made anew or moved by hand would not be noticed: the table that remembers its position cannot be used",
			zap.Stringer("table", m.cfg.Memory), zap.Error(err))
		return nil
	}
	return m.cfg.queryError(ctx, err)
}

// judge refuses a slot that is not where it was left.
func (m *memory) judge(row remembered, kept pglogrepl.LSN, id Identity, slot SlotInfo) error {
	f := &fault.Error{Kind: fault.Operator, Object: m.cfg.object(), At: kept.String()}
	switch {
	case row.SystemID != id.SystemID:
		f.Err = fmt.Errorf("the server is another cluster than the one this slot was last read from: system identifier %s, before %s", id.SystemID, row.SystemID)
		f.Next = "Point postgres.dsn back at the old one. After a pg_upgrade, or where all events of the old one were published:\ncdc-outbox slot accept"
	case slot.ConfirmedFlush <= kept:
		return nil
	case row.Timeline != id.Timeline && slot.Synced:
		return nil // the standby had the slot's last position before it had the row that says so
	default:
		how := "it was dropped and made anew, moved by hand, or read by something else"
		if row.Timeline != id.Timeline {
			how = fmt.Sprintf("the server was promoted (timeline %d, before %d), and the slot there is not the one that was read", id.Timeline, row.Timeline)
		}
		f.Err = fmt.Errorf("it stands at %s, beyond the last confirmed position: %s. Events committed between the two come through no slot", slot.ConfirmedFlush, how)
		f.Next = "cdc-outbox slot  # what is known of it\ncdc-outbox slot accept\n# start the connector again; then count the events that Kafka does not have, and publish them:\ncdc-outbox repair --dry-run\ncdc-outbox repair"
	}
	return f
}

// limit is how much of what is confirmed the slot may be told. Each of the two is a position that may be confirmed, so the
// lesser is one.
func (m *memory) limit(confirmed pglogrepl.LSN) pglogrepl.LSN {
	if m == nil || m.off.Load() {
		return confirmed
	}
	return min(confirmed, pglogrepl.LSN(m.kept.Load()))
}

// due tells whether there is something to be written down.
func (m *memory) due(confirmed, row pglogrepl.LSN) bool {
	kept := pglogrepl.LSN(m.kept.Load())
	return confirmed > kept && (row > kept || confirmed-kept > memoryStep)
}

// run writes down what is confirmed for as long as the stream lives.
func (m *memory) run(ctx context.Context, s *Stream) {
	timer := time.NewTimer(memoryFirst)
	defer timer.Stop()
	for interval := memoryFirst; ; timer.Reset(interval) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		interval = min(2*interval, memoryInterval)
		confirmed := s.cfg.Confirmed()
		if !m.due(confirmed, pglogrepl.LSN(s.lastRow.Load())) {
			if confirmed > pglogrepl.LSN(m.kept.Load()) && m.sentAway(ctx) {
				s.letGo()
				return
			}
			continue
		}
		switch err := m.keep(ctx, confirmed); {
		case err == nil && m.off.Swap(false):
			s.cfg.Logger.Info("the slot's position is remembered again", zap.Stringer("lsn", confirmed))
			m.since = 0
		case err == nil:
			m.since = 0
			s.status.confirmed(m.limit(confirmed))
		case shuttingDown(err):
			s.letGo()
			return
		case ctx.Err() == nil:
			m.since += memoryInterval
			if m.since > memoryPatience && !m.off.Swap(true) {
				s.cfg.Logger.Warn("the slot's position cannot be remembered; it is confirmed all the same, and if this process crashes now the next start will ask whether the slot was moved",
					zap.Stringer("table", m.cfg.Memory), zap.Error(err))
			}
		}
	}
}

// sentAway tells whether the server is shutting down. It ends every session before it writes its last records, and then
// waits until its walsenders' clients have confirmed those, which can be written down nowhere any more.
func (m *memory) sentAway(ctx context.Context) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := m.open(ctx); err != nil {
		return shuttingDown(err)
	}
	return shuttingDown(m.conn.Ping(ctx))
}

// keep writes a position down. It never goes back, and another timeline's reader is not disturbed.
func (m *memory) keep(ctx context.Context, lsn pglogrepl.LSN) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := m.open(ctx); err != nil {
		return err
	}
	tag, err := m.conn.Exec(ctx, fmt.Sprintf(`UPDATE %[1]s SET position = greatest(position, $2::pg_lsn), updated_at = now()
		WHERE slot = $1::text AND system_id = $3::text AND timeline = $4::int`, m.cfg.Memory.SQL()),
		m.cfg.Slot, lsn.String(), m.id.SystemID, m.id.Timeline)
	if err == nil && tag.RowsAffected() == 0 {
		err = errors.New("the slot's row is gone, or another timeline's")
	}
	if err != nil {
		return err
	}
	m.kept.Store(max(m.kept.Load(), uint64(lsn)))
	return nil
}

// open makes sure that there is a connection.
func (m *memory) open(ctx context.Context) (err error) {
	if m.conn == nil || m.conn.IsClosed() {
		m.conn, err = m.connect(ctx)
	}
	return err
}

// connect opens the connection that writes. A commit there waits for this server's disk, as the slot itself does, and for
// no standby.
func (m *memory) connect(ctx context.Context) (*pgx.Conn, error) {
	dsn, err := m.cfg.DSN()
	if err != nil {
		return nil, errors.New("the connection string cannot be had")
	}
	pc, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, adminDSNFault(err)
	}
	delete(pc.RuntimeParams, "replication")
	pc.RuntimeParams["application_name"] = "cdc-outbox memory"
	pc.RuntimeParams["synchronous_commit"] = "local"
	pc.RuntimeParams["default_transaction_read_only"] = "off"
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, adminConnectFault(pc, err)
	}
	return conn, nil
}

// close ends the connection.
func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		closeAdminConn(context.Background(), m.conn)
		m.conn = nil
	}
}
