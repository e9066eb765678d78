package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/pooler"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/replication/internal/walsocket"
)

// connection is a replication connection that has not begun to stream, and the two readers that let the stream take
// it over without losing a byte.
type connection struct {
	*pgconn.PgConn
	socket  *walsocket.Socket
	line    *login.Line // pgconn's source: the connection, and bytes that pgconn may have read in the background
	message *messageReader
	config  *pgconn.Config // as parsed; connects again, without streaming
	address string         // of the server, if config names several
}

// open connects, checks the server and the slot, and starts to stream.
func (r *runner) open(ctx context.Context) (*Stream, error) {
	cfg, earlier := r.cfg, r.earlier
	conn, err := dial(ctx, cfg, earlier != nil)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no stream within %s", startTimeout))
	defer cancel()
	id, slot, err := conn.identify(limited, cfg, earlier != nil)
	if err == nil {
		err = cfg.compare(&id, earlier)
	}
	if err == nil {
		err = conn.readPast(limited, cfg, &id)
	}
	if err == nil {
		id.slot = slot
		err = r.checkpoint.compareSlot(limited, conn, &id, slot)
	}
	if err == nil {
		err = cfg.OnIdentity(id)
	}
	if err == nil {
		err = cfg.startingPoint(&id)
	}
	if err == nil {
		err = conn.startReplication(limited, cfg, id.Start)
	}
	if err != nil {
		login.Hangup(conn.PgConn)
		return nil, err
	}
	return conn.stream(ctx, r, id)
}

func dial(ctx context.Context, cfg *Config, again bool) (*connection, error) {
	dsn, err := cfg.DSN()
	if err != nil {
		return nil, cfg.dsnError(err, again)
	}
	// rather than pgconn's: parameters that only pgx understands must not be sent to the server
	parsed, err := postgres.ParseConfig(dsn)
	if err != nil {
		return nil, cfg.dsnError(postgres.DSNFault(dsn), again)
	}
	pc := &parsed.Config
	if cfg.Dial != nil {
		pc.DialFunc = cfg.Dial
	}
	if pc.ConnectTimeout == 0 {
		pc.ConnectTimeout = cfg.ConnectTimeout
	}
	c := &connection{config: pc.Copy()}
	session.SetStreamParams(pc, cfg.Slot)
	dialer := pc.DialFunc
	pc.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.socket, c.address = walsocket.New(conn), addr
		return c.socket, nil
	}
	pc.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		c.line = login.Bounded(r, w)
		c.message = &messageReader{r: c.line}
		return pgproto3.NewFrontend(c.message, c.line)
	}
	c.PgConn, err = pgconn.ConnectConfig(ctx, pc)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, cfg.connectError(pc, err, again)
	}
	return c, nil
}

// identify asks the server who it is and how the slot is. A walsender with a database takes SQL by the simple
// protocol (Postgres docs 55.4).
func (c *connection) identify(ctx context.Context, cfg *Config, again bool) (Identity, postgres.Slot, error) {
	system, err := pglogrepl.IdentifySystem(ctx, c.PgConn)
	if sqlstate.Of(err) == sqlstate.SyntaxError {
		return Identity{}, postgres.Slot{}, c.throughPooler(pooler.Route{Tried: true, Ordinary: true})
	}
	if err != nil {
		return Identity{}, postgres.Slot{}, cfg.queryError(ctx, err)
	}
	id := Identity{SystemID: system.SystemID, Timeline: system.Timeline, WALEnd: lsn.LSN(system.XLogPos)}

	rows, err := c.query(ctx, `SELECT current_database(), current_setting('server_version_num'),
		`+ownSettings+`,
		(SELECT to_jsonb(s)::text FROM pg_catalog.pg_replication_slots s WHERE slot_name = `+
		identifier.QuoteLiteral(cfg.Slot)+`),
		`+session.LostSettings+`, pg_is_in_recovery(), pg_backend_pid()`, 7)
	if err != nil {
		return id, postgres.Slot{}, cfg.queryError(ctx, err)
	}
	if rows[4] != nil {
		return id, postgres.Slot{}, c.throughPooler(pooler.Route{
			Tried: true, Lost: strings.Split(string(rows[4]), ", "),
		})
	}
	pid, err := strconv.ParseUint(string(rows[6]), 10, 32) // the PID that came with the login may be a proxy's
	if err != nil {
		return id, postgres.Slot{}, cfg.retry(fmt.Errorf("pg_backend_pid() is %q", rows[6]))
	}
	id.BackendPID, id.Database = uint32(pid), string(rows[0])
	if id.ServerVersion, err = strconv.Atoi(string(rows[1])); err != nil {
		return id, postgres.Slot{}, cfg.retry(fmt.Errorf("server_version_num is %q", rows[1]))
	}
	ms, err := strconv.Atoi(string(rows[2]))
	if err != nil {
		return id, postgres.Slot{}, cfg.retry(fmt.Errorf("wal_sender_timeout is %q", rows[2]))
	}
	id.walSenderTimeout = time.Duration(ms) * time.Millisecond
	id.InRecovery = string(rows[5]) == "t"
	if err := cfg.checkRecovery(id, again); err != nil {
		return id, postgres.Slot{}, err
	}
	if rows[3] == nil {
		return id, postgres.Slot{}, cfg.slotMissing(id.server())
	}
	slot, err := postgres.ParseSlotRow(rows[3])
	if err != nil {
		return id, postgres.Slot{}, cfg.retry(err)
	}
	id.ConfirmedFlush, id.RestartLSN = slot.ConfirmedFlush, slot.RestartLSN
	return id, slot, cfg.checkSlot(slot, id)
}

// readPast asks for the timelines that led to the server's. A history file that is missing leaves them unknown.
func (c *connection) readPast(ctx context.Context, cfg *Config, id *Identity) error {
	if id.Timeline <= 1 {
		return nil
	}
	file, err := pglogrepl.TimelineHistory(ctx, c.PgConn, id.Timeline)
	if err == nil {
		id.Past, err = postgres.ParseTimelineHistory(string(file.Content))
	}
	if err != nil && c.IsClosed() {
		return cfg.queryError(ctx, err)
	}
	if err != nil {
		cfg.Logger.Warn("the history of the server's timeline cannot be read", zap.Int32(logkey.Timeline, id.Timeline),
			zap.Error(err))
	}
	return nil
}

// sessionTimeout is the wal_sender_timeout of the stream's session if the server's own is longer or off. A process
// that is frozen (a stopped container, a machine that hangs) holds the slot until the server misses its status updates:
// with the usual minute no standby could take over for that long, with 0 never. Any role may set it for its own
// session. Updates go out every second whatever the consumer does, so nothing else can make it strike.
const sessionTimeout = 10 * time.Second

// ownSettings sets sessionTimeout, unless postgres.dsn does, and returns the timeout in force in milliseconds. It also
// overrides the limits that would end the stream within a transaction.
var ownSettings = fmt.Sprintf(`(SELECT CASE WHEN source <> 'client' AND NOT setting::int BETWEEN 1 AND %[1]d
		   AND set_config('wal_sender_timeout', '%[1]d', false) IS NOT NULL THEN '%[1]d' ELSE setting END
		   FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout' AND %[2]s >= 0)`,
	sessionTimeout.Milliseconds(), session.StreamOverrides)

// throughPooler is for a connection whose answers show that no server gave them.
func (c *connection) throughPooler(w pooler.Route) error { return w.ToHostOf(c.config).Fault() }

// query returns the one row of a statement.
func (c *connection) query(ctx context.Context, sql string, columns int) ([][]byte, error) {
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != columns {
		return nil, errors.New("the server's answer has another shape than the question")
	}
	return results[0].Rows[0], nil
}

// compare looks whether this is the server of the last stream.
func (c *Config) compare(id, earlier *Identity) error {
	if earlier == nil {
		return nil
	}
	if id.SystemID != earlier.SystemID {
		return &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("slot %q", c.Slot), At: c.Confirmed().String(),
			Err: fmt.Errorf("the server of postgres.dsn is another cluster now: system identifier %s, before %s",
				id.SystemID, earlier.SystemID),
			Next: "Point postgres.dsn back at the cluster it read from. If the move is meant, see that the old " +
				"cluster's outbox has been read to its end, then restart.",
		}
	}
	id.TimelineChanged = id.Timeline != earlier.Timeline
	return nil
}

// startingPoint decides where the stream starts: at the tracker's confirmed position, which may lie ahead of the slot
// after a Postgres restart and saves the repeats, or at the slot's own position. The server skips silently whatever
// committed below the point it is given, so a point that does not belong to this server's log must not be used.
func (c *Config) startingPoint(id *Identity) error {
	confirmed := c.Confirmed()
	if id.TimelineChanged {
		if confirmed > id.ConfirmedFlush {
			return &fault.Error{
				Kind: fault.Fatal, Object: fmt.Sprintf("slot %q", c.Slot), At: confirmed.String(),
				Err: fmt.Errorf("the server was promoted to timeline %d and the tracker was not rewound to the "+
					"slot's position %s",
					id.Timeline, id.ConfirmedFlush),
			}
		}
		return nil
	}
	if confirmed > id.WALEnd && id.InRecovery {
		return &fault.Error{ // it begins again at its last restart point
			Kind: fault.Retry, Object: fmt.Sprintf("slot %q", c.Slot), At: confirmed.String(),
			Err: fmt.Errorf("the standby has been restarted and has its log up to %s, less than it had sent before",
				id.WALEnd),
		}
	}
	if confirmed > id.WALEnd {
		return &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("slot %q", c.Slot), At: confirmed.String(),
			Err: fmt.Errorf("the server's log ends at %s, before what it had already sent: it was restored from an "+
				"older copy", id.WALEnd),
			Next: "If postgres.dsn leads to the wrong server, correct it. If the server was restored on purpose, " +
				"accept the slot and start the connector: it then starts at the slot's own position and publishes " +
				"again what the restored server still holds.", Commands: []string{"cdc-outbox slot accept"},
		}
	}
	id.Start = confirmed
	if c.From != nil {
		id.Start = min(confirmed, max(id.ConfirmedFlush, c.From()))
	}
	return nil
}

func (c *connection) startReplication(ctx context.Context, cfg *Config, start lsn.LSN) error {
	err := pglogrepl.StartReplication(ctx, c.PgConn, cfg.Slot, pglogrepl.LSN(start), pglogrepl.StartReplicationOptions{
		Mode:       pglogrepl.LogicalReplication,
		PluginArgs: pluginOptions(cfg.Publication, len(cfg.Messages) > 0),
	})
	if err != nil {
		return cfg.startError(ctx, err)
	}
	return nil
}

// pluginOptions are pgoutput's. The list of publications is a list of identifiers inside a string (pgoutput.c,
// SplitIdentifierString).
func pluginOptions(publication string, messages bool) []string {
	publication = strings.ReplaceAll(identifier.Quote(publication), "'", "''")
	options := []string{"proto_version '1'", "publication_names '" + publication + "'"}
	if messages {
		options = append(options, "messages 'true'")
	}
	return options
}

// stream takes the connection away from pgconn, which would read message by message with a goroutine at its side.
func (c *connection) stream(ctx context.Context, r *runner, id Identity) (*Stream, error) {
	hijacked, err := c.Hijack()
	if err != nil {
		login.Hangup(c.PgConn)
		return nil, r.cfg.retry(err)
	}
	if !c.message.between() {
		_ = hijacked.Conn.Close()
		return nil, &fault.Error{
			Kind: fault.Fatal, Object: "replication connection",
			Err: errors.New("half a message was read before the stream began"),
		}
	}
	if err := hijacked.Conn.SetDeadline(time.Time{}); err != nil {
		_ = hijacked.Conn.Close()
		return nil, r.cfg.retry(err)
	}
	c.line.Lift()
	var s *Stream
	c.socket.Stream(r.cfg.OnWait, func() int { return s.frames.messages })
	s = newStream(ctx, r, hijacked.Conn, c.line, id)
	s.onLate = c.socket.Late
	s.holder = func(ctx context.Context) (uint32, lsn.LSN, error) { return c.holder(ctx, r.cfg.Slot) }
	s.shutdown.start(s, c.knock)
	return s, nil
}
