package replication

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// phase is the step that a server's error interrupted; some SQLSTATEs mean different things in different phases.
type phase uint8

const (
	duringConnect phase = iota
	duringQuery
	duringStart
	duringStream
)

// objects are the objects that remedies name, so that a fault has the same text in the stream, at the start and in
// check.
func (c *Config) objects() postgres.Objects {
	return postgres.Objects{
		Slot: c.Slot, Publication: c.Publication, Tables: c.Tables, Columns: c.Columns,
		Checkpoint: c.Checkpoint, Failover: c.Failover, HotStandby: c.HotStandby,
	}
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

// serverError classifies an error the server sent. at is the reader's position; the server's own word goes before it.
func (c *Config) serverError(p phase, at lsn.LSN, e *pgconn.PgError) error {
	f := &fault.Error{Kind: sqlstate.KindOf(e.Code), Object: c.object(), Err: &sqlstate.Refusal{PgError: e}}
	if m := associatedLSN.FindStringSubmatch(e.Where); m != nil {
		f.At = m[1]
	} else if at != 0 {
		f.At = at.String()
	}
	if e.Code == sqlstate.ObjectInUse && p == duringStart {
		held := &slotHeld{}
		if m := holderPID.FindStringSubmatch(e.Message); m != nil {
			held.pid, _ = strconv.Atoi(m[1])
		}
		f.Err = held
		return f
	}
	if e.Code == sqlstate.UndefinedObject && p == duringStart {
		return c.slotMissing(postgres.ServerFacts{}) // it was there a moment ago
	}
	f.With(c.remedy(p, e.Code))
	return f
}

// dsnError is for a connection string that cannot be had or read, e.g. since a secret's file or a certificate is being
// replaced: once it has been good (again), that passes.
func (c *Config) dsnError(err error, again bool) error {
	var known *fault.Error
	if errors.As(err, &known) {
		if !again {
			return err
		}
		passing := *known
		passing.Kind = fault.Retry
		return &passing
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
func (c *Config) checkSlot(slot postgres.Slot, id Identity) error {
	if unusable := c.objects().UnusableSlot(slot, id.server()); unusable != nil {
		f := unusable[0].Fault()
		f.At = slot.ConfirmedFlush.String()
		return f
	}
	if slot.ActivePID != 0 {
		return &fault.Error{Kind: fault.Retry, Object: c.object(), Err: &slotHeld{pid: slot.ActivePID}}
	}
	return nil
}

// server returns the facts about the server that the judgements need.
func (id Identity) server() postgres.ServerFacts {
	return postgres.ServerFacts{
		Version: id.ServerVersion, VersionText: fmt.Sprintf("%d.%d", id.ServerVersion/10000, id.ServerVersion%10000),
		Database: id.Database, InRecovery: id.InRecovery,
	}
}

// position is the end of the server's log when the connection was made.
func (id Identity) position() postgres.ServerPosition {
	return postgres.ServerPosition{SystemID: id.SystemID, Timeline: id.Timeline, WALEnd: id.WALEnd}
}

// checkRecovery refuses a standby that is not meant. While a process runs, its address may lead to one for as long as a
// failover takes. Whether the slot exists there is asked later, so the text does not speak of it.
func (c *Config) checkRecovery(id Identity, again bool) error {
	if !id.InRecovery {
		return nil
	}
	wrong := c.objects().WrongRole(id.server(), true)
	if wrong == nil {
		return nil
	}
	f := wrong[0].Fault()
	if again {
		f.Kind = fault.Retry
	}
	return f
}

// slotMissing is a slot that no longer exists: it did when the process began.
func (c *Config) slotMissing(server postgres.ServerFacts) error {
	f := c.objects().SlotGone(server).Fault()
	if at := c.Confirmed(); at != 0 {
		f.At = at.String()
	}
	return f
}

func (c *Config) object() string { return c.objects().SlotSubject() }

// retry is for a connection that broke.
func (c *Config) retry(err error) error {
	return &fault.Error{Kind: fault.Retry, Object: c.object(), Err: err}
}

// corrupt is for bytes that cannot be read. The position does not move.
func (s *Stream) corrupt(err error) error {
	f := &fault.Error{
		Kind: fault.Fatal, Object: s.cfg.object(), At: s.status.reported().String(), Err: err,
		Next: "Nothing was skipped. Restart; if it fails at the same place, report the error with the " +
			"server's version.",
	}
	var d *pgoutput.DecodeError
	if errors.As(err, &d) && d.LSN != 0 { // a Relation comes without one
		f.At = d.LSN.String()
	}
	return f
}
