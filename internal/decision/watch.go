package decision

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
)

const (
	// interval is how often the table is read: one query that an index answers.
	interval = time.Second
	// missing is how often a table that does not exist, or may not be used, is looked for.
	missing = 15 * time.Second
	// patience bounds one query, connecting included.
	patience = 5 * time.Second
)

// Relay is what the watch needs of a relay.
type Relay struct {
	View   func() View
	Decide func(relay.Decision) // about the row at which it is halted
	Pause  func(*relay.Pause)   // nil: go on
}

// Watch takes decisions up.
type Watch struct {
	Table   Table
	DSN     func() (string, error) // of a server that can be written
	Process string                 // host and pid
	Relay   Relay
	Logger  *zap.Logger

	conn *pgx.Conn
	said string
}

// Run looks once a second until ctx ends. What it cannot read does not stop the relay: the last decisions stay in
// effect.
func (w *Watch) Run(ctx context.Context) error {
	if w.Table.Name.Name == "" {
		return nil
	}
	defer func() {
		if w.conn != nil {
			postgres.CloseConn(w.conn)
		}
	}()
	for ctx.Err() == nil {
		pause := w.once(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// once looks once and returns when to look again.
func (w *Watch) once(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	exists, err := w.look(ctx)
	switch {
	case err == nil && exists:
		w.said = ""
		return interval
	case err == nil:
		return missing
	}
	if text := err.Error(); ctx.Err() == nil && text != w.said {
		w.said = text
		w.Logger.Warn("operators' decisions cannot be read", telemetry.ErrorFields(err)...)
	}
	if sqlstate.Of(err) == "42501" {
		return missing
	}
	return interval
}

// Prime looks once, before anything is published: a pause lasts over a restart.
func (w *Watch) Prime(ctx context.Context) {
	if w.Table.Name.Name != "" {
		w.once(ctx)
	}
}

func (w *Watch) look(ctx context.Context) (exists bool, err error) {
	if w.conn == nil || w.conn.IsClosed() {
		dsn, err := w.DSN()
		if err != nil {
			return false, err
		}
		w.conn, err = postgres.Open(ctx, dsn, postgres.ConnectOptions{
			Application: "cdc-outbox decisions", Unprepared: true,
		})
		if err != nil {
			return false, err
		}
	}
	if exists, err = w.Table.Exists(ctx, w.conn); err != nil || !exists {
		return exists, err
	}
	view := w.Relay.View()
	positions := make([]string, 0, len(view.Halted))
	for _, h := range view.Halted {
		positions = append(positions, h.Position)
	}
	rows, err := w.Table.open(ctx, w.conn, positions)
	if err != nil {
		return true, &fault.Error{Kind: fault.Retry, Object: "table " + w.Table.Name.String(), Err: err}
	}
	return true, w.follow(ctx, Plan(rows, view), view)
}

// follow carries the steps out. A decision is applied only when it is written down that it was taken up.
func (w *Watch) follow(ctx context.Context, s Steps, v View) error {
	if s.Pause == nil {
		w.Relay.Pause(nil)
	} else {
		w.Relay.Pause(&relay.Pause{
			By: s.Pause.By + " (" + s.Pause.From + ")", Reason: s.Pause.Reason, Since: s.Pause.At,
		})
	}
	for _, d := range s.Take {
		at := d.Position
		if v.Confirmed != 0 {
			at = v.Confirmed.String()
		}
		fresh, err := w.Table.take(ctx, w.conn, d.ID, w.Process, at)
		if err != nil {
			return w.unwritten(err)
		}
		if fresh {
			w.Logger.Warn("took up an operator's decision", zap.String(logkey.Sentence, d.Line()))
		}
	}
	for _, d := range s.Apply {
		w.Relay.Decide(d.Relayed())
	}
	for _, h := range s.Insert {
		if err := w.Table.list(ctx, w.conn, h, w.Process); err != nil {
			return w.unwritten(err)
		}
	}
	if len(s.Close) > 0 {
		if err := w.Table.close(ctx, w.conn, s.Close); err != nil {
			return w.unwritten(err)
		}
	}
	return nil
}

func (w *Watch) unwritten(err error) error {
	return &fault.Error{Kind: fault.Retry, Object: "table " + w.Table.Name.String(), Err: err}
}
