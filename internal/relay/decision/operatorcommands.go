package decision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// Desk takes operators' decisions.
type Desk struct {
	Table Table
	DSN   func() (string, error)
}

// List returns the open decisions and the latest of the others.
func (d Desk) List(ctx context.Context) (all []Decision, err error) {
	err = d.with(ctx, func(conn *pgx.Conn) (err error) {
		all, err = d.Table.Latest(ctx, conn)
		return err
	})
	return all, err
}

// recordedWithin is how long a relay may take to put on record that it is halted at a row: its watch looks every
// second.
const recordedWithin = 3 * time.Second

// Pass decides about the halted row that has this event id or position, and about no other. It waits until the relay
// has put the row on record. before is asked before anything is written; it may refuse.
func (d Desk) Pass(ctx context.Context, row string, action relay.Policy, reason string, before func() error,
) (made Decision, err error) {
	err = d.with(ctx, func(conn *pgx.Conn) error {
		halted, err := d.await(ctx, conn, row)
		if err != nil {
			return err
		}
		if err := before(); err != nil {
			return err
		}
		made, err = d.Table.insert(ctx, conn, Decision{
			Kind: Pass, Position: halted.Position, EventID: halted.EventID, Action: action, Reason: reason,
			From: from(),
		})
		return err
	})
	return made, err
}

// await looks for the halted row until it is on record, or would be.
func (d Desk) await(ctx context.Context, conn *pgx.Conn, row string) (Decision, error) {
	for began := time.Now(); ; {
		rows, err := d.Table.open(ctx, conn, nil)
		if err != nil {
			return Decision{}, err
		}
		halted, err := find(rows, row)
		if !errors.Is(err, errElsewhere) || time.Since(began) > recordedWithin {
			return halted, err
		}
		select {
		case <-ctx.Done():
			return Decision{}, ctx.Err()
		case <-time.After(recordedWithin / 20):
		}
	}
}

// errElsewhere: the relay is not halted at the row, as far as is on record.
var errElsewhere = errors.New("the relay is")

// find returns the halted row that an operator means.
func find(rows []Decision, row string) (Decision, error) {
	var at []Decision
	for _, d := range rows {
		if d.Kind != Halted {
			continue
		}
		if row != "" && (d.EventID == row || d.Position == row) {
			if d.Position == "" {
				return Decision{}, notPassable(d)
			}
			return d, nil
		}
		at = append(at, d)
	}
	refused := &fault.Error{Kind: fault.Operator, Object: fmt.Sprintf("event %q", row)}
	if len(at) == 0 {
		refused.Err = fmt.Errorf("%w not halted at any row, so there is nothing to decide", errElsewhere)
		return Decision{}, refused.With(fault.Do("See what the relay waits for.", "cdc-outbox status --why"))
	}
	if at[0].Position == "" {
		return Decision{}, notPassable(at[0])
	}
	refused.Err = fmt.Errorf("%w halted at another row: event %s, position %s", errElsewhere, at[0].EventID,
		at[0].Position)
	return Decision{}, refused.With(relay.PassRemedy(at[0].EventID, at[0].Position, at[0].Reason))
}

// notPassable is about a halt at no row of the outbox, or at one that cannot be distinguished from other rows.
func notPassable(d Decision) error {
	return &fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("event %q", d.EventID),
		Err: fmt.Errorf("the relay waits at something that cannot be passed while it runs: %s", d.Reason),
		Next: "An UPDATE or a TRUNCATE is not an event: restart with --postgres-on-change warn. A row without a " +
			"position of its own, which Kafka refuses: raise the topic's limit, or restart with " +
			"--router-bad-rows-too-large dead_letter.",
	}
}

// Switch pauses or resumes. It refuses a switch to the state in effect.
func (d Desk) Switch(ctx context.Context, kind Kind, reason string) (made Decision, err error) {
	err = d.with(ctx, func(conn *pgx.Conn) error {
		rows, err := d.Table.open(ctx, conn, nil)
		if err != nil {
			return err
		}
		switch now := Plan(rows, View{}).Pause; {
		case kind == Pause && now != nil:
			return &fault.Error{
				Kind: fault.Operator, Object: "relay " + d.Table.Relay,
				Err: fmt.Errorf("it is paused already: %s", now.Line()),
			}
		case kind == Resume && now == nil:
			return &fault.Error{
				Kind: fault.Operator, Object: "relay " + d.Table.Relay, Err: errors.New("it is not paused"),
			}
		}
		made, err = d.Table.insert(ctx, conn, Decision{Kind: kind, Reason: reason, From: from()})
		return err
	})
	return made, err
}

// with opens a connection, and says how to make the table if it is missing.
// errAbsent: nothing was ever decided, since there is no table.
var errAbsent = errors.New("it does not exist")

// Skipped lists the events that operators have skipped, by id.
func (d Desk) Skipped(ctx context.Context) (ids []string, err error) {
	if d.Table.Name.Name == "" {
		return nil, nil
	}
	err = d.with(ctx, func(conn *pgx.Conn) (err error) {
		ids, err = d.Table.skipped(ctx, conn)
		return err
	})
	if errors.Is(err, errAbsent) {
		return nil, nil
	}
	return ids, err
}

// Paused returns the pause in effect, as a line for people; empty: there is none.
func (d Desk) Paused(ctx context.Context) (line string, err error) {
	if d.Table.Name.Name == "" {
		return "", nil
	}
	err = d.with(ctx, func(conn *pgx.Conn) error {
		rows, err := d.Table.open(ctx, conn, nil)
		if err != nil {
			return err
		}
		if now := Plan(rows, View{}).Pause; now != nil {
			line = now.Line()
		}
		return nil
	})
	if errors.Is(err, errAbsent) {
		return "", nil
	}
	return line, err
}

func (d Desk) with(ctx context.Context, do func(*pgx.Conn) error) error {
	object := "table " + d.Table.Name.String()
	if d.Table.Name.Name == "" {
		return &fault.Error{
			Kind: fault.Config, Object: "postgres.decisions", Err: errors.New("it is off, so nothing can be decided"),
			Next: "Set it to a table, and restart the connector.",
		}
	}
	dsn, err := d.DSN()
	if err != nil {
		return err
	}
	conn, err := postgres.Connect(ctx, dsn, "cdc-outbox decide")
	if err != nil {
		return err
	}
	defer postgres.CloseConn(conn)
	exists, err := d.Table.Exists(ctx, conn)
	switch {
	case err != nil:
		return postgres.QueryFault(object, err)
	case !exists:
		return (&fault.Error{Kind: fault.Operator, Object: object, Err: errAbsent}).
			With(fault.Do("Create it.", "cdc-outbox setup"))
	}
	err = do(conn)
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return postgres.QueryFault(object, err)
}

// from is the operating system's user and host. It is for the record and proves nothing; the session's user does.
func from() string {
	name := "unknown user"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return name + "@" + host
}
