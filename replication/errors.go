package replication

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/lsn"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"

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

// admin is what the checks and their remedies need to know, so that a fault has the same text in the stream, at the start
// and in check.
func (c *Config) admin() AdminConfig {
	return AdminConfig{Slot: c.Slot, Publication: c.Publication, Tables: c.Tables, Columns: c.Columns, Failover: c.Failover, Memory: c.Memory, Standby: c.Standby}
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
func (c *Config) serverError(p phase, at lsn.LSN, e *pgconn.PgError) error {
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
	var d *pgoutput.DecodeError
	if errors.As(err, &d) && d.LSN != 0 { // a Relation comes without one
		f.At = d.LSN.String()
	}
	return f
}
