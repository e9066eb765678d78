package decision

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

const (
	// interval is how often the table is read: one query that an index answers.
	interval = time.Second
	// missing is how often a table that does not exist, or may not be used, is looked for.
	missing = 15 * time.Second
	// patience bounds one query, connecting included.
	patience = 5 * time.Second
)

// Relay is the watch's view of a relay.
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

	conn   *pgx.Conn
	exists bool   // the table was there when it was last read
	said   string // the last trouble that was logged
	pruned time.Time
}

// Run looks once a second until ctx ends. A table that it cannot read does not stop the relay: the last decisions stay
// in effect. Only an instance that waits for the slot is held back, because it could take over after a pause that it
// has not seen.
func (w *Watch) Run(ctx context.Context) error {
	if w.Table.Name.Name == "" {
		return nil
	}
	defer w.close()
	for ctx.Err() == nil {
		next, err := w.once(ctx)
		if err != nil && ctx.Err() == nil && w.Relay.View().Waits {
			w.Relay.Pause(&relay.Pause{Unread: err, Since: time.Now()})
		}
		select {
		case <-ctx.Done():
		case <-time.After(next):
		}
	}
	return nil
}

// Await looks until it has an answer, before anything is read: a pause lasts over a restart, also if it cannot be
// looked up at first. A table that does not exist holds no pause. The reason for the wait is reported each time.
func (w *Watch) Await(ctx context.Context, report func(error)) {
	for w.Table.Name.Name != "" && ctx.Err() == nil {
		_, err := w.once(ctx)
		if err == nil {
			return
		}
		report(err)
		select {
		case <-ctx.Done():
			w.close() // Run does not begin
		case <-time.After(interval):
		}
	}
}

func (w *Watch) close() {
	if w.conn != nil {
		postgres.CloseConn(w.conn)
	}
}

// once looks once and returns when to look again.
func (w *Watch) once(ctx context.Context) (next time.Duration, err error) {
	look, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	was := w.exists
	switch err = w.applyDecisions(look); {
	case err == nil && w.exists:
		w.said = ""
		return interval, nil
	case err == nil:
		if was {
			w.Logger.Warn("the table of operators' decisions no longer exists; the last decisions stay in effect "+
				"until the process ends", zap.Stringer(logkey.Table, w.Table.Name),
				zap.Strings(logkey.Commands, []string{"cdc-outbox setup"}))
		}
		return missing, nil
	}
	if text := err.Error(); ctx.Err() == nil && text != w.said {
		w.said = text
		w.Logger.Warn("operators' decisions cannot be read", telemetry.ErrorFields(err)...)
	}
	if sqlstate.Of(err) == sqlstate.NotPermitted {
		return missing, err
	}
	return interval, err
}

// applyDecisions reads the table and applies the plan. Whether the table is there is asked until it is.
func (w *Watch) applyDecisions(ctx context.Context) (err error) {
	if w.conn == nil || w.conn.IsClosed() {
		dsn, err := w.DSN()
		if err != nil {
			return err
		}
		w.conn, err = postgres.Open(ctx, dsn, postgres.ConnectOptions{
			Application: "cdc-outbox decisions", Unprepared: true,
		})
		if err != nil {
			return err
		}
	}
	if !w.exists {
		if w.exists, err = w.Table.Exists(ctx, w.conn); err != nil || !w.exists {
			return w.failed(err)
		}
	}
	view := w.Relay.View()
	positions := make([]string, 0, len(view.Halted))
	for _, h := range view.Halted {
		positions = append(positions, h.Position)
	}
	rows, err := w.Table.open(ctx, w.conn, positions)
	switch sqlstate.Of(err) {
	case sqlstate.UndefinedTable, sqlstate.UndefinedSchema:
		w.exists = false
		return nil
	}
	if err == nil {
		err = w.follow(ctx, Plan(rows, view), view)
	}
	return w.failed(err)
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
	unwritten := map[int64]bool{}
	for _, d := range s.Take {
		at := d.Position
		if v.Confirmed != 0 {
			at = v.Confirmed.String()
		}
		fresh, err := w.Table.markTaken(ctx, w.conn, d.ID, w.Process, at)
		if err != nil {
			return err
		}
		if !fresh { // it was deleted, or another process took it up; the table says so a second later
			unwritten[d.ID] = true
			continue
		}
		now := time.Now()
		d.TakenAt, d.TakenBy, d.TakenLSN = &now, w.Process, at
		w.Logger.Warn("took up an operator's decision", zap.String(logkey.Sentence, d.Line()))
	}
	for _, d := range s.Apply {
		if !unwritten[d.ID] {
			w.Relay.Decide(d.Relayed())
		}
	}
	for _, h := range s.Insert {
		if err := w.Table.list(ctx, w.conn, h, w.Process); err != nil {
			return err
		}
	}
	if len(s.Seen) > 0 {
		if err := w.Table.seen(ctx, w.conn, s.Seen); err != nil {
			return err
		}
	}
	if len(s.Close) > 0 {
		if err := w.Table.close(ctx, w.conn, s.Close); err != nil {
			return err
		}
	}
	if v.Holds && time.Since(w.pruned) > pruneEvery {
		w.pruned = time.Now()
		return w.Table.prune(ctx, w.conn)
	}
	return nil
}

// pruneEvery is how often rows are deleted at which the relay was halted long ago.
const pruneEvery = time.Hour

// failed names the table, and the missing rights.
func (w *Watch) failed(err error) error {
	if err == nil {
		return nil
	}
	f := &fault.Error{Kind: fault.Retry, Object: "table " + w.Table.Name.String(), Err: err}
	if sqlstate.Of(err) == sqlstate.NotPermitted {
		f.With(fault.Do("Grant the rights to the connector's role.",
			fmt.Sprintf("GRANT %s ON TABLE %s TO %s;", statetables.DecisionsRights, w.Table.Name.SQL(),
				identifier.Quote(w.role()))))
	}
	return f
}

// role is the connected role.
func (w *Watch) role() string { return w.conn.Config().User }
