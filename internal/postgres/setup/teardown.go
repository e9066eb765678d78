package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// Teardown drops the slot, then the publication unless another slot may read it, and the tables where dropTables is set
// (without CASCADE). It refuses while a session reads the slot. What no longer exists is not an error. It returns the
// steps done.
func Teardown(ctx context.Context, dsn string, cfg Config, dropTables bool) (done []Step, err error) {
	cfg = cfg.WithDefaults()
	err = withServers(ctx, dsn, cfg, func(conn servers) error {
		steps, err := readTeardownPlan(ctx, conn, cfg, dropTables)
		if err != nil {
			return err
		}
		for _, s := range steps {
			if !s.Does() {
				cfg.Logger.Warn("teardown keeps an object", zap.String(logkey.SQL, s.SQL),
					zap.String(logkey.Reason, s.Why))
				continue
			}
			if _, err := conn.maker(s).Exec(ctx, s.SQL); err != nil {
				if alreadyGone(err) {
					continue
				}
				return teardownFault(cfg, s, err)
			}
			cfg.Logger.Info("teardown step done", zap.String(logkey.SQL, s.SQL))
			done = append(done, s)
		}
		return nil
	})
	return done, err
}

// PlanTeardown lists what Teardown would do and changes nothing. The same refusals are its errors.
func PlanTeardown(ctx context.Context, dsn string, cfg Config, dropTables bool) (steps []Step, err error) {
	cfg = cfg.WithDefaults()
	err = withServers(ctx, dsn, cfg, func(conn servers) error {
		steps, err = readTeardownPlan(ctx, conn, cfg, dropTables)
		return err
	})
	return steps, err
}

func readTeardownPlan(ctx context.Context, conn servers, cfg Config, dropTables bool) ([]Step, error) {
	st, err := conn.readState(ctx, cfg)
	if err != nil {
		return nil, postgres.QueryFault("catalog", err)
	}
	if err := teardownRefusal(cfg, st); err != nil {
		return nil, err
	}
	if st.Readers, err = otherReaders(ctx, conn.Conn, cfg); err != nil {
		return nil, err
	}
	if conn.primary != nil && conn.primary != conn.Conn {
		more, err := otherReaders(ctx, conn.primary, cfg)
		if err != nil {
			return nil, err
		}
		st.Readers = append(st.Readers, more...)
	}
	if err := lookupDecisionsUse(ctx, cmp.Or(conn.primary, conn.Conn), cfg, &st.Decisions); err != nil {
		return nil, err
	}
	if err := lookupGapsUse(ctx, cmp.Or(conn.primary, conn.Conn), cfg, &st.Gaps); err != nil {
		return nil, err
	}
	steps := append(planTeardown(cfg, st, dropTables), planDecisionsTeardown(cfg, st, dropTables)...)
	steps = append(steps, planGapsTeardown(cfg, st, dropTables)...)
	if conn.primary == nil { // the rest is done there
		steps = slices.DeleteFunc(steps, func(s Step) bool { return s.action != stepSlot })
	}
	return steps, nil
}

// teardownRefusal protects a slot that is read or that is not ours.
func teardownRefusal(cfg Config, st state) error {
	s := st.Slot
	refuse := func(next fault.Remedy, format string, args ...any) error {
		f := &fault.Error{Kind: fault.Operator, Object: cfg.SlotSubject(), Err: fmt.Errorf(format, args...)}
		return f.With(next)
	}
	switch {
	case !s.Exists:
		return nil
	case s.ActivePID != 0:
		return refuse(fault.Do("Stop the connector first. If its process has ended already, end the session.",
			fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", s.ActivePID)),
			"process %d of the server is reading it", s.ActivePID)
	case !s.Logical || s.Plugin != "pgoutput":
		return refuse(fault.Do("Correct postgres.slot."),
			"it is not a slot of this connector (a physical slot, or one with another plugin than pgoutput)")
	case s.Database != st.Server.Database:
		return refuse(fault.Do("Correct the database in postgres.dsn, or postgres.slot."),
			"it belongs to database %q, the connection goes to %q", s.Database, st.Server.Database)
	}
	return nil
}

func planTeardown(cfg Config, st state, dropTables bool) []Step {
	var steps []Step
	if st.Slot.Exists {
		steps = append(steps, Step{
			SQL:    cfg.DropSlotSQL(),
			action: stepSlot,
			Why: "Postgres keeps WAL for as long as the slot exists. It goes first: a slot without its " +
				"publication cannot be decoded.",
		})
	}
	drop := fmt.Sprintf("DROP PUBLICATION %s;", identifier.Quote(cfg.Publication))
	switch {
	case !st.Publication.Exists:
	case len(st.Readers) == 0:
		steps = append(steps, Step{SQL: drop, Why: "No slot uses it any more."})
	case cfg.DropPublication:
		steps = append(steps, Step{
			SQL: drop,
			Why: "Asked for. A slot that reads it cannot be decoded any more: " + strings.Join(st.Readers, ", ") + ".",
		})
	default:
		steps = append(steps, Step{
			SQL: "-- " + drop, action: stepKept,
			Why: fmt.Sprintf("Publication %s is kept: other slots of this database may read it, and without it they "+
				"could never be decoded again: %s. If none of them reads it, run `cdc-outbox teardown "+
				"--drop-publication`, or drop it.", identifier.Quote(cfg.Publication), strings.Join(st.Readers, ", ")),
		})
	}
	if st.Snapshot.Exists {
		steps = append(steps, Step{
			SQL: fmt.Sprintf("DROP TABLE %s;", snapshot.List(cfg.Objects).SQL()),
			Why: "It lists rows that were to be published first.",
		})
	}
	if st.Checkpoint.Exists && st.Slot.Exists {
		steps = append(steps, Step{SQL: cfg.ForgetSQL(), Why: "A later slot of this name is another one."})
	}
	for _, t := range st.Tables {
		if dropTables && t.Exists {
			steps = append(steps, Step{
				SQL: fmt.Sprintf("DROP TABLE %s;", t.Table.SQL()),
				Why: "Asked for. Events in it that were not published are lost with it.",
			})
		}
	}
	return steps
}

// otherReaders names the slots of this database, ours left out, that may read the publication. A slot does not record
// its publications: they come with START_REPLICATION. So only a session that the role may see, and that names others,
// shows that its slot does not read it.
func otherReaders(ctx context.Context, q postgres.Querier, cfg Config) ([]string, error) {
	var readers []string
	err := q.QueryRow(ctx, `SELECT coalesce(array_agg(quote_ident(s.slot_name)
		  || CASE WHEN s.active THEN ' (a session reads it)' ELSE ' (no session reads it)' END
		  ORDER BY s.slot_name), '{}')
		FROM pg_catalog.pg_replication_slots s LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid
		WHERE s.plugin = 'pgoutput' AND s.database = current_database() AND s.slot_name <> $1::text
		  AND NOT coalesce(a.query ~* '^START_REPLICATION ' AND a.query ~ 'publication_names'
		    AND position($2::text IN a.query) = 0 AND length(a.query) < 900, false)`,
		cfg.Slot, cfg.Publication).Scan(&readers)
	if err != nil {
		return nil, postgres.QueryFault("replication slots", err)
	}
	return readers, nil
}

func alreadyGone(err error) bool {
	switch sqlstate.Of(err) {
	case sqlstate.UndefinedObject, sqlstate.UndefinedTable: // another process was faster
		return true
	}
	return false
}

func teardownFault(cfg Config, s Step, err error) error {
	f := postgres.QueryFault("teardown", err)
	var fe *fault.Error
	if errors.As(f, &fe) {
		switch sqlstate.Of(err) {
		case sqlstate.ObjectInUse:
			fe.Object, fe.Next = cfg.SlotSubject(), "Stop the connector first."
		default:
			fe.With(fault.Do("Run it as the owner.", s.SQL))
		}
	}
	return f
}
