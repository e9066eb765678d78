package replication

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// phase is what a server's error interrupted; some SQLSTATEs mean different things in different phases.
type phase uint8

const (
	duringConnect phase = iota
	duringQuery
	duringStart
	duringStream
)

// rule is what an SQLSTATE, or a class of them by its first two characters, asks for (Postgres docs, appendix A).
type rule struct {
	code string
	kind fault.Kind
	next func(c *Config) string // nil: nothing to do, or nothing known
}

// rules are searched in order. What is not here ends the process: an error nobody has thought about must not be
// retried for ever behind somebody's back.
var rules = []rule{
	{"28", fault.Operator, nextLogin}, // Retry once a login has worked: passwords rotate on both sides, not at once
	{"3D000", fault.Operator, nil},
	{"42501", fault.Operator, nextReplicationRole},
	{"42704", fault.Operator, nextUndefined},
	{"42602", fault.Config, nil}, // illegal slot name
	{"58P01", fault.Operator, nextRemovedWAL},
	{"55000", fault.Operator, nextUnusableSlot},
	{"54", fault.Operator, nil}, // a row that does not fit into a message
	{"0A", fault.Operator, nil},
	{"22021", fault.Operator, nextEncoding}, // a value in a database of SQL_ASCII that is not UTF-8
	{"22P05", fault.Operator, nextEncoding}, // a character that UTF-8 does not have
	{"22", fault.Operator, nil},
	{"42", fault.Operator, nil},
	{"55006", fault.Retry, nil}, // another session holds the slot
	{"08", fault.Retry, nil},
	{"25006", fault.Operator, nil}, // default_transaction_read_only, which stays
	{"25", fault.Retry, nil},
	{"40", fault.Retry, nil}, // a standby's recovery got in the way
	{"53", fault.Retry, nil}, // connections, memory, disk
	{"55", fault.Retry, nil},
	{"57", fault.Retry, nil},    // shut down, starting up, terminated
	{"58", fault.Retry, nil},    // I/O
	{"XX000", fault.Retry, nil}, // among them passing trouble with reading WAL
}

func findRule(code string) rule {
	for _, r := range rules {
		if code == r.code || len(r.code) == 2 && strings.HasPrefix(code, r.code) {
			return r
		}
	}
	return rule{code: code, kind: fault.Fatal}
}

// admin is what the checks and their remedies need to know, so that a fault has the same text in the stream, at the start
// and in check.
func (c *Config) admin() AdminConfig {
	return AdminConfig{Slot: c.Slot, Publication: c.Publication, Tables: c.Tables, Columns: c.Columns, Failover: c.Failover, Memory: c.Memory, Standby: c.Standby}
}

func nextLogin(*Config) string {
	return "Set user and password in postgres.dsn; see that pg_hba.conf has a line for this role, database and host (a walsender with a database matches the database's name)."
}

func nextReplicationRole(c *Config) string {
	if dsn, err := c.DSN(); err == nil {
		if parsed, err := pgx.ParseConfig(dsn); err == nil {
			return replicationGrant(serverInfo{User: parsed.User}) + "\n-- on a managed service it may go another way: `cdc-outbox check` knows"
		}
	}
	return "Give the role in postgres.dsn the attribute REPLICATION."
}

func nextUndefined(c *Config) string {
	return "-- the publication is looked up as it was when the rows were written: creating it now does not mend this slot\n" +
		publicationLost(c.admin(), setupState{}).Remedy
}

// nextEncoding: the log holds the value as it was written, so no correction of the row brings the stream past it.
func nextEncoding(c *Config) string {
	where := "the outbox"
	if len(c.Tables) == 1 {
		where = "table " + c.Tables[0].String()
	}
	return "-- A row of " + where + ", written at this LSN, holds a text that cannot be sent as UTF-8, and the log keeps it as it is. Correct it in the table,\n" +
		"-- pass over its transaction, and publish from the table what was passed over. At a quiet moment, LSN being what pg_current_wal_lsn() says:\n" +
		"cdc-outbox slot advance --to LSN --yes-lose-events\ncdc-outbox run  # as usual, then in another terminal\ncdc-outbox repair"
}

func nextRemovedWAL(c *Config) string { return slotInvalidated(c.admin(), setupState{}).Remedy }

func nextUnusableSlot(*Config) string {
	return "`cdc-outbox check` says whether wal_level is too low or the slot is invalidated, and prints the SQL that mends it."
}

// slotHeld is a slot that another session reads from. Run waits for it as a standby.
type slotHeld struct{ pid int }

func (e *slotHeld) Error() string {
	if e.pid == 0 {
		return "another session reads from it"
	}
	return fmt.Sprintf("the session with PID %d reads from it", e.pid)
}

var (
	holderPID     = regexp.MustCompile(`is active for PID (\d+)`)
	associatedLSN = regexp.MustCompile(`associated LSN ([0-9A-F]+/[0-9A-F]+)`)
)

// serverError classifies an error the server sent. at is where reading stood; the server's own word goes before it.
func (c *Config) serverError(p phase, at pglogrepl.LSN, e *pgconn.PgError) error {
	r := findRule(e.Code)
	f := &fault.Error{Kind: r.kind, Object: c.object(), Err: &serverRefusal{e}}
	if m := associatedLSN.FindStringSubmatch(e.Where); m != nil {
		f.At = m[1]
	} else if at != 0 {
		f.At = at.String()
	}
	if e.Code == "55006" && p == duringStart {
		held := &slotHeld{}
		if m := holderPID.FindStringSubmatch(e.Message); m != nil {
			held.pid, _ = strconv.Atoi(m[1])
		}
		f.Err = held
		return f
	}
	if e.Code == "42704" && p == duringStart {
		return c.slotMissing(Identity{}) // it was there a moment ago
	}
	f.Next = c.remedy(p, e.Code)
	return f
}

// remedy is what an SQLSTATE asks for. Before the slot is touched the same codes mean something else, an unknown parameter
// in postgres.dsn for one (42704), and nobody must be told to drop a slot for that.
func (c *Config) remedy(p phase, code string) string {
	next := findRule(code).next
	switch {
	case next == nil:
		return ""
	case p == duringConnect && code == "42704":
		return "Take the parameter out of postgres.dsn, or correct its name."
	case (p == duringConnect || p == duringQuery) && !strings.HasPrefix(code, "28") && code != "42501":
		return ""
	}
	return next(c)
}

// serverRefusal is a server's error with its detail, which often holds the reason, and without the statement it came
// from. Unwrap gives the *pgconn.PgError.
type serverRefusal struct{ pg *pgconn.PgError }

func (e *serverRefusal) Error() string {
	s := e.pg.Message
	if e.pg.Detail != "" && !dataInDetail(e.pg.Code) {
		s += " (" + e.pg.Detail + ")"
	}
	return s + " (SQLSTATE " + e.pg.Code + ")"
}

func (e *serverRefusal) Unwrap() error { return e.pg }

// dataInDetail tells which errors quote a row's values in their detail.
func dataInDetail(code string) bool {
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")
}

// connectError is for a connection that did not come about. Once one has (again), a refused login is no longer a
// mistake in the configuration but most likely a password that is being changed: that passes.
func (c *Config) connectError(pc *pgconn.Config, err error, again bool) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if poolerRefusal(pg) || poolerLogin(pg) && !again {
			return way{Tried: true, Refusal: pg}.toHostOf(pc).fault()
		}
		f := &fault.Error{Object: server(pc), Err: &serverRefusal{pg}, Kind: findRule(pg.Code).kind, Next: c.remedy(duringConnect, pg.Code)}
		if again && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000") {
			f.Kind = fault.Retry
		}
		return f
	}
	// pgconn's error holds the whole configuration, password included, so only its text goes on, and that without it.
	cause := err
	var dial *pgconn.ConnectError
	if errors.As(err, &dial) {
		cause = dial.Unwrap()
	}
	text := oneLine{cause}.Error()
	if len(pc.Password) > 3 {
		text = strings.ReplaceAll(text, pc.Password, "…")
	}
	return &fault.Error{
		Kind: fault.Retry, Object: server(pc), Err: errors.New("cannot connect: " + text),
		Next: nextConnect(pc.Host, pc.Port, cause),
	}
}

// nextConnect is what to do about a connection that failed before the server said a word.
func nextConnect(host string, port uint16, err error) string {
	if strings.Contains(err.Error(), "server refused TLS connection") { // pgconn has no value for it
		return "The server has no TLS: set ssl = on there, or sslmode=disable or prefer in postgres.dsn."
	}
	return fmt.Sprintf("See whether the server runs and is reached from here: pg_isready -h %s -p %d", host, port)
}

// oneLine is an error of pgconn's with its text on one line. It tries each host with TLS and without, and lists what became
// of every attempt on a line of its own, mostly the same.
type oneLine struct{ error }

func (e oneLine) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

func (e oneLine) Unwrap() error { return e.error }

// server names the server without user, password or parameters.
func server(pc *pgconn.Config) string { return fmt.Sprintf("postgres %s:%d", pc.Host, pc.Port) }

// dsnError is for a connection string that cannot be had, e.g. since a secret's file is being replaced.
func (c *Config) dsnError(err error, again bool) error {
	var known *fault.Error
	if errors.As(err, &known) && !again {
		return err
	}
	kind := fault.Config
	if again {
		kind = fault.Retry
	}
	return &fault.Error{Kind: kind, Object: "postgres.dsn", Err: err}
}

// queryError is for a question about the server or the slot that failed.
func (c *Config) queryError(ctx context.Context, err error) error {
	return c.serverOr(ctx, duringQuery, err)
}

// startError is for a START_REPLICATION that failed.
func (c *Config) startError(ctx context.Context, err error) error {
	return c.serverOr(ctx, duringStart, err)
}

func (c *Config) serverOr(ctx context.Context, p phase, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return c.serverError(p, c.Confirmed(), pg)
	}
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return cause
		}
		err = cause
	}
	return c.retry(err)
}

// checkSlot refuses a slot that cannot be read from, and says why better than the server would.
func (c *Config) checkSlot(slot SlotInfo, id Identity) error {
	st := setupState{Slot: slot, Server: id.server()}
	var f *fault.Error
	if errors.As(firstFailure(checkSlot(c.admin(), st)), &f) {
		f.At = slot.ConfirmedFlush.String()
		return f
	}
	if slot.ActivePID != 0 {
		return &fault.Error{Kind: fault.Retry, Object: c.object(), Err: &slotHeld{pid: slot.ActivePID}}
	}
	return nil
}

// server is what the checks need to know of it.
func (id Identity) server() serverInfo {
	return serverInfo{Database: id.Database, Version: id.ServerVersion, InRecovery: id.InRecovery}
}

// checkRecovery refuses a standby that is not meant. While a process runs, its address may lead to one for as long as a
// failover takes.
func (c *Config) checkRecovery(id Identity, again bool) error {
	var f *fault.Error
	st := setupState{Server: id.server(), Slot: SlotInfo{Exists: true}}
	st.Server.VersionText = serverVersion(id.ServerVersion)
	if !id.InRecovery || !errors.As(firstFailure(checkStandby(c.admin(), st)), &f) {
		return nil
	}
	if again {
		f.Kind = fault.Retry
	}
	return f
}

func serverVersion(num int) string { return fmt.Sprintf("%d.%d", num/10000, num%10000) }

// slotMissing is a slot that is gone: it was there when the process began.
func (c *Config) slotMissing(id Identity) error {
	f := slotGone(c.admin(), setupState{Server: id.server()})
	missing := &fault.Error{Kind: fault.Operator, Object: c.object(), Err: errors.New(trimStop(f.Found) + ". " + trimStop(f.Why)), Next: f.Remedy}
	if at := c.Confirmed(); at != 0 {
		missing.At = at.String()
	}
	return missing
}

func (c *Config) object() string { return fmt.Sprintf("slot %q", c.Slot) }

// retry is for a connection that broke.
func (c *Config) retry(err error) error {
	return &fault.Error{Kind: fault.Retry, Object: c.object(), Err: err}
}

// corrupt is for bytes that cannot be read. The position stays where it is.
func (s *Stream) corrupt(err error) error {
	f := &fault.Error{
		Kind: fault.Fatal, Object: s.cfg.object(), At: s.status.reported().String(), Err: err,
		Next: "Nothing was skipped. Restart; if it fails at the same place, report the error with the server's version.",
	}
	var d *DecodeError
	if errors.As(err, &d) && d.LSN != 0 { // a Relation comes without one
		f.At = d.LSN.String()
	}
	return f
}
