package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
)

// CutOverRows are the rows that another relay, which polled the tables, has left to be published. It is stopped while
// CutOver runs.
type CutOverRows struct {
	Rows  string // condition in SQL
	Order string // column; empty: timestamp and id
}

// CutOver creates publication and slot as Setup does, and lists the rows to be taken over in the snapshot that the
// slot's creation exports: what was committed before and is not published comes from the list, what is committed later
// from the log. The mark of a list that is not finished says that it is not of all rows, so that only another CutOver
// goes on with it. listed is the number of rows.
func CutOver(ctx context.Context, dsn string, cfg Config, rows CutOverRows) (done []Step, listed int64, err error) {
	cfg = cfg.WithDefaults()
	cfg.Snapshot, cfg.cutOver = true, &rows
	if cfg.HotStandby {
		return nil, 0, &fault.Error{
			Kind: fault.Config, Object: "migrate polling",
			Err: errors.New("the slot is to be on a standby, where the snapshot of its creation cannot be " +
				"written down"),
			Next: "Migrate to a slot on the primary.",
		}
	}
	err = withServer(ctx, dsn, cfg, func(s servers) error {
		conn := s.Conn
		st, err := s.readState(ctx, cfg)
		if err != nil {
			return postgres.QueryFault("catalog", err)
		}
		if err := preflight.FirstFailure(cfg.ForeignSlot(st.Slot, st.Server.ServerFacts)); err != nil {
			return err
		}
		if refusal := cutOverRefusal(cfg, st); refusal != nil {
			return refusal
		}
		if !st.Slot.Exists || !st.Snapshot.Exists || st.Snapshot.Unfinished { // otherwise an earlier run got so far
			if done, err = s.cutOver(ctx, cfg, st); err != nil {
				return err
			}
		}
		list := snapshot.List(cfg.Objects)
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM "+list.SQL()).Scan(&listed); err != nil {
			return postgres.QueryFault("table "+list.String(), err)
		}
		return nil
	})
	return done, listed, err
}

// cutOverRefusal finds a slot or a list that no cutover has made.
func cutOverRefusal(cfg Config, st state) error {
	switch {
	case st.Slot.Exists && !st.Snapshot.Exists && st.Slot.ActivePID != 0:
		return &fault.Error{
			Kind: fault.Operator, Object: cfg.SlotSubject(),
			Err: fmt.Errorf("it exists already, not for a takeover, and process %d of the server is reading it",
				st.Slot.ActivePID),
			Next: "Set postgres.slot and postgres.publication to other names.",
		}
	case st.Slot.Exists && !st.Snapshot.Exists:
		return &fault.Error{
			Kind: fault.Operator, Object: cfg.SlotSubject(),
			Err:      errors.New("it exists already, and not for a takeover"),
			Next:     "Choose another postgres.slot and postgres.publication, or remove both where nothing needs them.",
			Commands: []string{"cdc-outbox teardown"},
		}
	case st.Snapshot.Exists && st.Snapshot.Unfinished && !st.Snapshot.CutOver:
		return &fault.Error{
			Kind: fault.Operator, Object: "table " + snapshot.List(cfg.Objects).String(),
			Err: errors.New("a setup with postgres.snapshot was interrupted"), Next: "Drop what it has created.",
			Commands: []string{"cdc-outbox teardown"},
		}
	}
	return nil
}

// cutOver tries the condition on each table, makes the empty list, and then creates publication and slot.
func (s servers) cutOver(ctx context.Context, cfg Config, st state) ([]Step, error) {
	conn := s.Conn.PgConn()
	for _, t := range cfg.Tables {
		sql := fmt.Sprintf("SELECT 1 FROM %s WHERE (%s) LIMIT 1", t.SQL(), cfg.cutOver.Rows)
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
			return nil, postgres.QueryFault("condition for rows of table "+t.String(), err)
		}
	}
	if !st.Snapshot.Exists {
		if err := preflight.FirstFailure(obstacles(cfg, st)); err != nil {
			return nil, err
		}
		if _, err := conn.Exec(ctx, listDDL(cfg)).ReadAll(); err != nil {
			return nil, postgres.QueryFault("table "+snapshot.List(cfg.Objects).String(), err)
		}
	}
	return ensure(ctx, s, cfg, true)
}

// cutOverUnfinished keeps an interrupted takeover from being continued as if all rows were to be published.
func cutOverUnfinished(cfg Config) preflight.Finding {
	return preflight.Finding{
		Level: preflight.Fail, Subject: "table " + snapshot.List(cfg.Objects).String(),
		Found:  "A takeover from a relay that polls was interrupted before its rows were listed.",
		Why:    "Nothing may be published before it is known what is left to publish.",
		Remedy: "Continue the takeover.", Commands: []string{"cdc-outbox migrate polling"},
	}
}
