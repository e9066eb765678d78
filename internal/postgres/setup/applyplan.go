package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// carryOut runs the plan and looks at the result. The setup lock is held.
func carryOut(ctx context.Context, s servers, cfg Config) ([]Step, error) {
	var done []Step
	for {
		st, err := s.readState(ctx, cfg)
		if err != nil {
			return done, postgres.QueryFault("catalog", err)
		}
		steps := planSetup(cfg, st)
		if len(steps) == 0 {
			if err := clearUnfinishedMark(ctx, s.primary, cfg, st); err != nil {
				return done, err
			}
			made := slices.ContainsFunc(done, func(step Step) bool { return step.action == stepSlot })
			if err := beginAccount(ctx, s.primary, cfg, st, made); err != nil {
				return done, err
			}
			return done, preflight.FirstFailure(verdict(cfg, st))
		}
		// One step, then the catalog again: only with the table in it is it known whether the table is partitioned.
		step := steps[0]
		if len(done) > 0 && done[len(done)-1].SQL == step.SQL {
			return done, &fault.Error{
				Kind: fault.Operator, Object: "setup", Err: fmt.Errorf("a step had no effect: %s", step.SQL),
				Next: "Run it by hand and look at what Postgres says.",
			}
		}
		if err := runStep(ctx, s, cfg, st.Server.Version, step); err != nil {
			return done, err
		}
		done = append(done, step)
	}
}

// clearUnfinishedMark removes the mark of an unfinished setup. Its removal is what makes a later loss of the slot
// visible, so nothing is streamed before.
func clearUnfinishedMark(ctx context.Context, conn *pgx.Conn, cfg Config, st state) error {
	if !st.pending(cfg) || !st.Publication.Owned {
		return nil
	}
	_, err := conn.Exec(ctx, "COMMENT ON PUBLICATION "+identifier.Quote(cfg.Publication)+" IS NULL")
	if err != nil {
		return postgres.QueryFault(cfg.PublicationSubject(), err)
	}
	return nil
}

func runStep(ctx context.Context, s servers, cfg Config, version int, step Step) error {
	if step.action == stepSlot || step.action == stepSnapshotSlot {
		return runSlotStep(ctx, s, cfg, version, step)
	}
	sql, conn := step.SQL, s.primary
	if step.action == stepPublication {
		// Several statements in one simple query are one transaction (Postgres docs 55.2.2.1).
		sql += fmt.Sprintf("\nCOMMENT ON PUBLICATION %s IS %s;", identifier.Quote(cfg.Publication),
			identifier.QuoteLiteral(pendingMark(cfg)))
	}
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil && conn.PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK") // of a step that is a transaction; a connection that broke needs none
	}
	switch sqlstate.Of(err) {
	case "":
		if err == nil {
			cfg.Logger.Info("setup step done", zap.String(logkey.SQL, step.SQL))
			return nil
		}
	case sqlstate.DuplicateObject, sqlstate.DuplicateTable, sqlstate.UniqueViolation:
		return nil // another process was faster; the catalog is read again and judged
	}
	f := postgres.QueryFault("setup", err)
	var fe *fault.Error
	if errors.As(f, &fe) && fe.Kind == fault.Operator {
		fe.With(fault.Do("Run it as a role that may do it.", step.SQL))
		if sqlstate.Of(err) == sqlstate.ReadOnly {
			fe.With(fault.Do("Run `cdc-outbox setup` with ?options=-c%20default_transaction_read_only%3Doff in "+
				"postgres.dsn, or do it by hand.", "SET default_transaction_read_only = off;", step.SQL))
		}
	}
	return f
}

func runSlotStep(ctx context.Context, s servers, cfg Config, version int, step Step) error {
	err := s.awaitReplay(ctx, cfg)
	switch {
	case err != nil:
	case step.action == stepSlot:
		err = createSlot(ctx, s, cfg, step.SQL)
	default:
		err = createSnapshotSlot(ctx, s.Conn, cfg, version)
	}
	if err != nil || cfg.Checkpoint.Name == "" {
		return err
	}
	// What is remembered is another slot's. A role that may not delete it has not been given one to remember either.
	if _, err := s.primary.Exec(ctx, cfg.ForgetSQL()); err != nil && sqlstate.Of(err) != sqlstate.UndefinedTable &&
		sqlstate.Of(err) != sqlstate.NotPermitted {
		return postgres.QueryFault("table "+cfg.Checkpoint.String(), err)
	}
	return s.awaitReplay(ctx, cfg) // or the old one would be read there
}

// createSlot creates the slot. Postgres waits in it until every transaction that has written, in any database, has
// ended (Postgres docs 49.2.2, snapbuild.c), so the wait is bounded and the error names them. When the wait is
// given up the server drops the half-made slot itself.
func createSlot(ctx context.Context, s servers, cfg Config, sql string) error {
	s.tellOpen(ctx, cfg)
	waitCtx, cancel := context.WithTimeout(ctx, cfg.SlotWait)
	defer cancel()
	var logging sync.WaitGroup
	if s.primary != s.Conn {
		logging.Go(func() { s.logSnapshots(waitCtx, cfg) })
	}
	// The wait is for transactions, by their locks, and SlotWait bounds it.
	_, err := s.Exec(waitCtx, "SET lock_timeout = 0")
	if err == nil {
		_, err = s.Exec(waitCtx, sql)
	}
	gaveUp := waitCtx.Err() != nil
	cancel()
	logging.Wait()
	if err == nil {
		cfg.Logger.Info("setup step done", zap.String(logkey.SQL, sql))
		return nil
	}
	if sqlstate.Of(err) == sqlstate.DuplicateObject {
		return nil
	}
	return slotCreationFault(ctx, gaveUp, s, cfg, err)
}

// slotCreationFault says why the server made no slot.
func slotCreationFault(ctx context.Context, gaveUp bool, s servers, cfg Config, err error) error {
	code := sqlstate.Of(err)
	if gaveUp || code == sqlstate.QueryCanceled {
		return slotWaitFault(ctx, s, cfg)
	}
	if code == sqlstate.LimitExceeded {
		return &fault.Error{
			Kind: fault.Operator, Object: cfg.SlotSubject(),
			Err:      fmt.Errorf("every replication slot of the server is in use"),
			Next:     "Drop a slot that no session reads, or raise max_replication_slots and restart the server.",
			Commands: []string{"SELECT slot_name, active FROM pg_replication_slots;"},
		}
	}
	return postgres.QueryFault(cfg.SlotSubject(), err)
}

// slotWaitFault asks who was waited for. It passes when they end, hence Retry.
func slotWaitFault(ctx context.Context, s servers, cfg Config) error {
	f := &fault.Error{
		Kind: fault.Retry, Object: cfg.SlotSubject(),
		Err: fmt.Errorf("creating it waits for transactions that were open when it began, not done after %s",
			cfg.SlotWait),
	}
	if ctx.Err() != nil {
		f.Err = fmt.Errorf("creating it waited for transactions that were open when it began: %w", context.Cause(ctx))
	}
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if s.primary == nil {
		f.Err = fmt.Errorf("creating it on a standby waits for the primary to log its running transactions, and for "+
			"the transactions that are open there; not done after %s", cfg.SlotWait)
		return f.With(fault.Do("Run it on the primary, while the slot is being created.", postgres.LogSnapshotSQL))
	}
	open, err := s.openTransactions(ask, 5)
	if err != nil || len(open) == 0 {
		return f.With(fault.Do("See which sessions are waited for.", "SELECT pid, datname, usename, state, now() "+
			"- xact_start AS age FROM pg_stat_activity WHERE backend_xid IS NOT NULL;"))
	}
	f.Err = fmt.Errorf("%w: %s", f.Err, transactionTexts(open))
	return f.With(fault.Do("This is about the oldest.").Then(open[0].remedy()))
}
