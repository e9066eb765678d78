package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// planSnapshot undoes what a setup that was killed has left.
func planSnapshot(cfg Config, st state) []Step {
	switch {
	case !st.Snapshot.Unfinished || cfg.ForeignSlot(st.Slot, st.Server.ServerFacts) != nil:
		return nil
	case st.Snapshot.Heal && (cfg.onlyNeeded || cfg.Heals && !st.readPastList()):
		return nil // HealSlot goes on with it
	case st.Snapshot.Heal:
		return []Step{{
			SQL: fmt.Sprintf("DROP TABLE %s;", snapshot.List(cfg.Objects).SQL()),
			Why: "A heal was interrupted, and the slot was read since; the gap stays open.",
		}}
	case cfg.Snapshot && st.Slot.Exists && st.Slot.ActivePID == 0 &&
		st.Slot.ConfirmedFlush.String() == st.Snapshot.Point:
		return []Step{{
			SQL: cfg.DropSlotSQL(),
			Why: "A setup was interrupted between making the slot and listing the rows that were there; nothing was " +
				"ever read from it.",
		}}
	case !cfg.Snapshot && !cfg.onlyNeeded:
		return []Step{
			{
				SQL: fmt.Sprintf("DROP TABLE %s;", snapshot.List(cfg.Objects).SQL()),
				Why: "A setup with postgres.snapshot was interrupted, and it is no longer wanted.",
			},
		}
	}
	return nil
}

// listDDL makes the list, empty and marked.
func listDDL(cfg Config) string {
	list := snapshot.List(cfg.Objects).SQL()
	return fmt.Sprintf("DROP TABLE IF EXISTS %[1]s;\nCREATE TABLE %[1]s (n bigint PRIMARY KEY, source int NOT NULL, "+
		"id text NOT NULL);\nCOMMENT ON TABLE %[1]s IS %[2]s;",
		list, identifier.QuoteLiteral(cfg.unfinished()))
}

// unfinished is the mark.
func (cfg Config) unfinished() string {
	switch {
	case cfg.cutOver != nil:
		return snapshot.CutOverUnfinished
	case cfg.fill != nil:
		return snapshot.HealUnfinished
	}
	return snapshot.Unfinished
}

// listOrders is the order in which each table's rows are listed: that of its timestamp and then its id. The stream
// takes the commit's time where a table has no timestamp; its rows go in the order of their ids.
func listOrders(ctx context.Context, q postgres.Querier, cfg Config) ([]string, error) {
	orders := make([]string, len(cfg.Tables))
	for i, t := range cfg.Tables {
		if cfg.cutOver != nil && cfg.cutOver.Order != "" {
			orders[i] = identifier.Quote(cfg.cutOver.Order)
			continue
		}
		info, err := postgres.LookupTable(ctx, q, t)
		if err != nil {
			return nil, postgres.QueryFault("table "+t.String(), err)
		}
		orders[i] = identifier.Quote(cfg.Columns.ID)
		if ts := cfg.Columns.Timestamp; ts != "" {
			if _, ok := info.Column(ts); ok {
				orders[i] = identifier.Quote(ts) + ", " + orders[i]
			}
		}
	}
	return orders, nil
}

// fillSQL lists the rows of all tables, each table's in its order.
func fillSQL(cfg Config, orders []string, exported string) string {
	list := snapshot.List(cfg.Objects).SQL()
	b := fmt.Sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSET TRANSACTION SNAPSHOT %s;\n",
		identifier.QuoteLiteral(exported))
	for i, t := range cfg.Tables {
		where := ""
		if cfg.cutOver != nil {
			where = " WHERE (" + cfg.cutOver.Rows + ")"
		}
		b += fmt.Sprintf("INSERT INTO %[1]s SELECT (SELECT count(*) FROM %[1]s) + row_number() OVER (ORDER BY "+
			"%[2]s), %[3]d, %[4]s::text FROM %[5]s%[6]s;\n",
			list, orders[i], i, identifier.Quote(cfg.Columns.ID), t.SQL(), where)
	}
	// Without statistics a batch's rows would be looked for in the whole outbox.
	b += fmt.Sprintf("ANALYZE %[1]s;\nCOMMENT ON TABLE %[1]s IS NULL;\n", list)
	if cfg.Role != "" {
		b += fmt.Sprintf("GRANT SELECT, DELETE ON %s TO %s;\n", list, identifier.Quote(cfg.Role))
	}
	return b + "COMMIT;"
}

// exportingSlotCommand creates the slot over the replication protocol, which alone exports its snapshot (Postgres docs
// 55.4). Before 15 the command has no list of options.
func exportingSlotCommand(cfg Config, version int) string {
	options := "EXPORT_SNAPSHOT"
	if version >= 150000 {
		options = "(SNAPSHOT 'export')"
		if cfg.Failover {
			options = "(SNAPSHOT 'export', FAILOVER)"
		}
	}
	return fmt.Sprintf("CREATE_REPLICATION_SLOT %s LOGICAL pgoutput %s", identifier.Quote(cfg.Slot), options)
}

// createSnapshotSlot makes the slot and lists the rows that its stream will not hold. The setup lock is held.
func createSnapshotSlot(ctx context.Context, conn *pgx.Conn, cfg Config, version int) error {
	list := snapshot.List(cfg.Objects)
	run := func(sql string) error {
		_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		if err != nil && conn.PgConn().TxStatus() != 'I' {
			_, _ = conn.Exec(ctx, "ROLLBACK") // a connection that broke needs none
		}
		return err
	}
	orders, err := listOrders(ctx, conn, cfg)
	if err != nil {
		return err
	}
	if err := run(listDDL(cfg)); err != nil {
		return postgres.QueryFault("table "+list.String(), err)
	}
	waitCtx, cancel := context.WithTimeout(ctx, cfg.SlotWait)
	defer cancel()
	replicating := conn.Config()
	replicating.RuntimeParams["replication"] = "database"
	replicating.RuntimeParams["lock_timeout"] = "0" // see createSlot
	walsender, err := postgres.OpenConfig(waitCtx, replicating)
	if err != nil {
		return err
	}
	defer postgres.CloseConn(walsender) // which ends the snapshot
	servers{conn, conn}.tellOpen(ctx, cfg)
	results, err := walsender.PgConn().Exec(waitCtx, exportingSlotCommand(cfg, version)).ReadAll()
	if err != nil {
		return slotCreationFault(ctx, waitCtx.Err() != nil, servers{conn, conn}, cfg, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 3 || results[0].Rows[0][2] == nil {
		return &fault.Error{
			Kind: fault.Operator, Object: cfg.SlotSubject(), Err: errors.New("the server exported no snapshot"),
			Next: "Set postgres.snapshot to never.",
		}
	}
	point, exported := string(results[0].Rows[0][1]), string(results[0].Rows[0][2])
	if err := run(fmt.Sprintf("COMMENT ON TABLE %s IS %s;", list.SQL(),
		identifier.QuoteLiteral(cfg.unfinished()+snapshot.MadeAt+point))); err != nil {
		return postgres.QueryFault("table "+list.String(), err)
	}
	if err := awaitCommitting(ctx, conn, cfg, exported); err != nil {
		return err
	}
	if cfg.fill != nil {
		return cfg.fill(ctx, orders, exported)
	}
	if err := run(fillSQL(cfg, orders, exported)); err != nil {
		return cfg.fillFault(err)
	}
	cfg.Logger.Info("slot created, and the rows listed that are in the outbox already",
		zap.String(logkey.Slot, cfg.Slot), zap.String(logkey.LSN, point))
	return nil
}

// fillFault is for rows that cannot be listed.
func (cfg Config) fillFault(err error) error {
	f := postgres.QueryFault("table "+snapshot.List(cfg.Objects).String(), err)
	var fe *fault.Error
	if errors.As(f, &fe) && sqlstate.Of(err) == sqlstate.NotNullViolation {
		fe.Kind = fault.Operator
		fe.With(fault.Do("Give every row of the outbox an id, or set postgres.snapshot to never. This lists the rows "+
			"without an id.", fmt.Sprintf("SELECT * FROM %s WHERE %s IS NULL;", cfg.Tables[0].SQL(),
			identifier.Quote(cfg.Columns.ID))))
	}
	return f
}

// checkSnapshotName refuses a slot whose list would have too long a name.
func (cfg Config) checkSnapshotName() error {
	if !cfg.Snapshot || snapshot.List(cfg.Objects).Name != "" {
		return nil
	}
	why := "there is no table to publish from"
	if len(cfg.Tables) > 0 {
		why = fmt.Sprintf("the slot's name is longer than %d bytes, so its table of rows to publish can have none",
			63-len(snapshot.Prefix))
	}
	return &fault.Error{
		Kind: fault.Config, Object: "postgres.snapshot", Err: errors.New(why),
		Next: "Set postgres.snapshot to never, or postgres.slot to a shorter name.",
	}
}
