package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// The rows that are in the outbox when the slot is made are published once, before anything is streamed. Which rows these
// are only the slot's exported snapshot tells, and it is gone with the connection that made the slot. So their ids are
// written down in it, numbered, into a table: the list. It is durable, it does not change when rows come or go, and
// a number in it is a position that a later process understands.
//
// The list exists before the slot, marked as unfinished, and loses the mark in the transaction that fills it. A slot beside
// an unfinished list was made by a setup that was killed in between; nothing was ever streamed from it, so it is dropped and
// made anew with another snapshot. The list is dropped when its last row is published.
const snapshotUnfinished = "cdc-outbox: rows of the snapshot, not listed yet"

// snapshotAt stands between the mark and the position of the slot that was made for the list. A slot that has moved from
// there has been read from, and is not dropped.
const snapshotAt = ", slot made at "

// snapshotTakenOver begins the mark of a list that only CutOver may fill: it is not of all rows.
const snapshotTakenOver = "cdc-outbox: rows taken over from another relay, not listed yet"

const snapshotPrefix = "cdc_outbox_snapshot_"

// snapshotList is the list of one slot; it has no name where there is none.
func (cfg AdminConfig) snapshotList() identifier.Table {
	t := identifier.Table{Name: snapshotPrefix + cfg.Slot}
	if len(cfg.Tables) == 0 || len(t.Name) > 63 {
		return identifier.Table{}
	}
	t.Schema = cfg.Tables[0].Schema
	return t
}

// snapshotInfo is the list as the catalog has it.
type snapshotInfo struct {
	Exists     bool
	Unfinished bool
	TakenOver  bool   // an unfinished one is of a takeover
	Point      string // where the slot was made that belongs to an unfinished list; empty: not known
}

func lookupSnapshot(ctx context.Context, q Querier, list identifier.Table) (snapshotInfo, error) {
	var s snapshotInfo
	if list.Name == "" {
		return s, nil
	}
	var comment string
	err := q.QueryRow(ctx, `SELECT coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = $2::text`, list.Schema, list.Name).Scan(&comment)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read table %s: %w", list, err)
	}
	point, unfinished := strings.CutPrefix(comment, snapshotUnfinished)
	point, takenOver := strings.CutPrefix(point, snapshotTakenOver)
	return snapshotInfo{Exists: true, Unfinished: unfinished || takenOver, TakenOver: takenOver, Point: strings.TrimPrefix(point, snapshotAt)}, nil
}

// planSnapshot undoes what a setup that was killed has left.
func planSnapshot(cfg AdminConfig, st setupState) []Step {
	switch {
	case !st.Snapshot.Unfinished || foreignSlot(cfg, st) != nil:
		return nil
	case cfg.Snapshot && st.Slot.Exists && st.Slot.ActivePID == 0 && st.Slot.ConfirmedFlush.String() == st.Snapshot.Point:
		return []Step{{SQL: fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", identifier.QuoteLiteral(cfg.Slot)),
			Why: "A setup was interrupted between making the slot and listing the rows that were there; nothing was ever read from it."}}
	case !cfg.Snapshot && !cfg.onlyNeeded:
		return []Step{{SQL: fmt.Sprintf("DROP TABLE %s;", cfg.snapshotList().SQL()), Why: "A setup with postgres.snapshot was interrupted, and it is no longer wanted."}}
	}
	return nil
}

// listDDL makes the list, empty and marked.
func listDDL(cfg AdminConfig) string {
	list := cfg.snapshotList().SQL()
	return fmt.Sprintf("DROP TABLE IF EXISTS %[1]s;\nCREATE TABLE %[1]s (n bigint PRIMARY KEY, source int NOT NULL, id text NOT NULL);\nCOMMENT ON TABLE %[1]s IS %[2]s;",
		list, identifier.QuoteLiteral(cfg.unfinished()))
}

// unfinished is the mark.
func (cfg AdminConfig) unfinished() string {
	if cfg.takenOver != nil {
		return snapshotTakenOver
	}
	return snapshotUnfinished
}

// listOrders is the order in which each table's rows are listed: that of its timestamp and then its id. The stream takes the
// commit's time where a table has no timestamp; its rows go in the order of their ids.
func listOrders(ctx context.Context, q Querier, cfg AdminConfig) ([]string, error) {
	orders := make([]string, len(cfg.Tables))
	for i, t := range cfg.Tables {
		if cfg.takenOver != nil && cfg.takenOver.Order != "" {
			orders[i] = identifier.Quote(cfg.takenOver.Order)
			continue
		}
		info, err := lookupTable(ctx, q, t)
		if err != nil {
			return nil, adminQueryFault("table "+t.String(), err)
		}
		orders[i] = identifier.Quote(cfg.Columns.ID)
		if ts := cfg.Columns.Timestamp; ts != "" {
			if _, ok := info.column(ts); ok {
				orders[i] = identifier.Quote(ts) + ", " + orders[i]
			}
		}
	}
	return orders, nil
}

// fillSQL lists the rows of all tables, each table's in its order.
func fillSQL(cfg AdminConfig, orders []string, snapshot string) string {
	list := cfg.snapshotList().SQL()
	b := fmt.Sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSET TRANSACTION SNAPSHOT %s;\n", identifier.QuoteLiteral(snapshot))
	for i, t := range cfg.Tables {
		where := ""
		if cfg.takenOver != nil {
			where = " WHERE (" + cfg.takenOver.Rows + ")"
		}
		b += fmt.Sprintf("INSERT INTO %[1]s SELECT (SELECT count(*) FROM %[1]s) + row_number() OVER (ORDER BY %[2]s), %[3]d, %[4]s::text FROM %[5]s%[6]s;\n",
			list, orders[i], i, identifier.Quote(cfg.Columns.ID), t.SQL(), where)
	}
	// Without statistics a batch's rows would be looked for in the whole outbox.
	b += fmt.Sprintf("ANALYZE %[1]s;\nCOMMENT ON TABLE %[1]s IS NULL;\n", list)
	if cfg.Role != "" {
		b += fmt.Sprintf("GRANT SELECT, DELETE ON %s TO %s;\n", list, identifier.Quote(cfg.Role))
	}
	return b + "COMMIT;"
}

// createSnapshotSlot makes the slot and lists the rows that its stream will not hold. The setup lock is held.
func createSnapshotSlot(ctx context.Context, conn *pgx.Conn, cfg AdminConfig, version int) error {
	list := cfg.snapshotList()
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
		return adminQueryFault("table "+list.String(), err)
	}
	waitCtx, cancel := context.WithTimeout(ctx, cfg.SlotWait)
	defer cancel()
	replicating := conn.Config()
	replicating.RuntimeParams["replication"] = "database"
	walsender, err := connectCancelling(waitCtx, replicating)
	if err != nil {
		return err
	}
	defer closeAdminConn(ctx, walsender) // which ends the snapshot
	options := "EXPORT_SNAPSHOT"
	if version >= 150000 {
		options = "(SNAPSHOT 'export')"
		if cfg.Failover {
			options = "(SNAPSHOT 'export', FAILOVER)"
		}
	}
	results, err := walsender.PgConn().Exec(waitCtx, fmt.Sprintf("CREATE_REPLICATION_SLOT %s LOGICAL pgoutput %s", identifier.Quote(cfg.Slot), options)).ReadAll()
	if err != nil {
		return slotCreationFault(ctx, waitCtx.Err() != nil, servers{conn, conn}, cfg, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 3 || results[0].Rows[0][2] == nil {
		return &fault.Error{Kind: fault.Operator, Object: slotSubject(cfg), Err: errors.New("the server exported no snapshot"), Next: "Set postgres.snapshot to never."}
	}
	point, snapshot := string(results[0].Rows[0][1]), string(results[0].Rows[0][2])
	if err := run(fmt.Sprintf("COMMENT ON TABLE %s IS %s;", list.SQL(), identifier.QuoteLiteral(cfg.unfinished()+snapshotAt+point))); err != nil {
		return adminQueryFault("table "+list.String(), err)
	}
	if err := run(fillSQL(cfg, orders, snapshot)); err != nil {
		f := adminQueryFault("table "+list.String(), err)
		var fe *fault.Error
		if errors.As(f, &fe) && adminSQLState(err) == "23502" {
			fe.Kind = fault.Operator
			fe.Next = fmt.Sprintf("Give every row of the outbox an id, or set postgres.snapshot to never. Rows without one:\nSELECT * FROM %s WHERE %s IS NULL;", cfg.Tables[0].SQL(), identifier.Quote(cfg.Columns.ID))
		}
		return f
	}
	cfg.Logger.Info("slot created, and the rows listed that are in the outbox already", zap.String(logkey.Slot, cfg.Slot), zap.String(logkey.LSN, point))
	return nil
}

// checkSnapshotName refuses a slot whose list would have too long a name.
func (cfg AdminConfig) checkSnapshotName() error {
	if !cfg.Snapshot || cfg.snapshotList().Name != "" {
		return nil
	}
	why := "there is no table to publish from"
	if len(cfg.Tables) > 0 {
		why = fmt.Sprintf("the slot's name is longer than %d bytes, so its table of rows to publish can have none", 63-len(snapshotPrefix))
	}
	return &fault.Error{Kind: fault.Config, Object: "postgres.snapshot", Err: errors.New(why), Next: "Set postgres.snapshot to never, or postgres.slot to a shorter name."}
}
