package outboxtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// PartitionState is how far the removal of a partition has come.
type PartitionState string

// A partition is detached in two transactions where that is done CONCURRENTLY, and dropped in a third; a run that ends
// in between leaves one that is pending or detached. A comment on the table, set before, marks it as ours for the next
// run.
const (
	Attached PartitionState = "attached"
	Pending  PartitionState = "detach pending" // Postgres docs, ALTER TABLE … FINALIZE
	Detached PartitionState = "detached"
)

// Partition is one that holds rows itself, or did before it was detached.
type Partition struct {
	Table  identifier.Table
	OID    uint32
	Parent identifier.Table // empty where it is detached
	State  PartitionState
	Ours   bool   // a run of prune has begun to take it out
	Keep   string // why it must stay; empty where its range is older than the horizon
	// its parent has a default partition, so it cannot be detached concurrently (Postgres docs, ALTER TABLE)
	Shared bool

	Rows, Later, Bytes int64 // Later: rows that do not lie below the horizon; see Weigh
	Weighed            bool  // Rows and Later are known
}

// partitionsSQL walks the tree by hand: pg_partition_tree leaves out what is being detached. bound is of the partition,
// or of any partition between it and the root, from the root down; only those by range of the timestamp count.
const partitionsSQL = `
WITH RECURSIVE tree AS (
  SELECT c.oid, 0::oid AS parent, false AS pending, ARRAY[]::text[] COLLATE "C" AS bounds,
    NULL::text COLLATE "C" AS bound
    FROM pg_catalog.pg_class c WHERE c.oid = $1::oid
  UNION ALL
  SELECT c.oid, t.oid, i.inhdetachpending,
         t.bounds || CASE WHEN p.partstrat = 'r' AND p.partattrs[0] = a.attnum
                          THEN pg_get_expr(c.relpartbound, c.oid) COLLATE "C" END,
         pg_get_expr(c.relpartbound, c.oid) COLLATE "C"
    FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = t.oid
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attname = $2::text AND NOT a.attisdropped
)
SELECT c.oid, n.nspname, c.relname, coalesce(pn.nspname, ''), coalesce(pc.relname, ''), t.pending, c.relkind::text,
  pg_has_role(c.relowner, 'USAGE'),
       coalesce(t.bound, ''), array_remove(t.bounds, NULL), coalesce(pt.partdefid, 0) <> 0,
       coalesce(obj_description(c.oid, 'pg_class') = $3::text, false), pg_total_relation_size(c.oid)
  FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_class pc ON pc.oid = t.parent LEFT JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace
  LEFT JOIN pg_catalog.pg_partitioned_table pt ON pt.partrelid = t.parent
 WHERE c.relkind <> 'p'
UNION ALL
SELECT c.oid, n.nspname, c.relname, '', '', false, c.relkind::text, pg_has_role(c.relowner, 'USAGE'), '',
  ARRAY[]::text[], false, true, pg_total_relation_size(c.oid)
  FROM pg_catalog.pg_description d JOIN pg_catalog.pg_class c ON c.oid = d.objoid JOIN pg_catalog.pg_namespace n
    ON n.oid = c.relnamespace
 WHERE d.classoid = 'pg_catalog.pg_class'::regclass AND d.objsubid = 0 AND d.description = $3::text AND c.relkind = 'r'
   AND NOT c.relispartition
 ORDER BY 2, 3`

// leavingComment marks a partition before it is detached. A rename of the table meanwhile does not change that.
func leavingComment(root uint32) string {
	return fmt.Sprintf("cdc-outbox prune takes this table out of the partitioned table with oid %d and drops it", root)
}

// Partitions lists the partitions of the table, after Below has said what may go.
func (r *Rows) Partitions(ctx context.Context) ([]Partition, error) {
	if !r.info.Partitioned() {
		return nil, &fault.Error{
			Kind: fault.Config, Object: "table " + r.table.String(), Err: errors.New("it is not partitioned"),
			Next: "Leave --partitions out: its rows are deleted one by one. Where it is a partition, name the " +
				"partitioned table in postgres.tables, which takes a publication with publish_via_partition_root.",
		}
	}
	if err := r.conn.QueryRow(ctx, "SELECT $1::text::regclass::oid", r.table.SQL()).Scan(&r.root); err != nil {
		return nil, postgres.QueryFault("table "+r.table.String(), err)
	}
	all, err := r.readPartitions(ctx)
	if err != nil {
		return nil, postgres.QueryFault("table "+r.table.String(), err)
	}
	list := make([]Partition, 0, len(all))
	for i := range all {
		f := &all[i]
		if f.Keep, err = r.keepReason(ctx, f); err != nil {
			return nil, err
		}
		list = append(list, f.Partition)
	}
	// One of a parent's partitions can be pending at a time (Postgres docs, ALTER TABLE). Ours comes first, another's
	// stays.
	for i := range list {
		list[i].Shared = list[i].Shared || slices.ContainsFunc(list, func(p Partition) bool {
			return p.State == Pending && !p.Ours && p.Parent == list[i].Parent
		})
	}
	return list, nil
}

// catalogPartition is a partition as the catalog has it.
type catalogPartition struct {
	Partition
	kind, bound    string
	bounds         []string
	pending, owned bool
}

func (r *Rows) readPartitions(ctx context.Context) ([]catalogPartition, error) {
	rows, err := r.conn.Query(ctx, partitionsSQL, r.root, r.cfg.Columns.Timestamp, leavingComment(r.root))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (f catalogPartition, err error) {
		err = row.Scan(&f.OID, &f.Table.Schema, &f.Table.Name, &f.Parent.Schema, &f.Parent.Name, &f.pending, &f.kind,
			&f.owned, &f.bound, &f.bounds, &f.Shared, &f.Ours, &f.Bytes)
		f.State = Attached
		switch {
		case f.Parent.Name == "":
			f.State = Detached
		case f.pending:
			f.State = Pending
		}
		return f, err
	})
}

// keepReason says why the partition must stay; empty where it may go.
func (r *Rows) keepReason(ctx context.Context, f *catalogPartition) (why string, err error) {
	switch {
	case f.State == Detached:
	case f.kind != "r":
		return "it is not a plain table", nil
	case f.bound == "DEFAULT":
		return "it is the default partition; `cdc-outbox prune` without --partitions deletes its rows", nil
	case f.State == Pending && !f.Ours:
		return "another process is detaching it", nil
	default:
		if why, err = r.future(ctx, f.bounds); err != nil || why != "" {
			return why, err
		}
	}
	if !f.owned {
		return "the connected role does not own it, so it may not drop it", nil
	}
	return "", nil
}

// future says why a range is not wholly older than the horizon; empty where it is. One bound of an ancestor is enough.
func (r *Rows) future(ctx context.Context, bounds []string) (string, error) {
	why := "nothing says that its rows are of the past: it is not a range of the timestamp column"
	for _, b := range bounds {
		upper, ok := upperBound(b)
		if !ok {
			if b != "DEFAULT" {
				why = "its range has no end"
			}
			continue
		}
		var past bool
		err := r.conn.QueryRow(ctx, fmt.Sprintf("SELECT $1::text::%s <= $2::timestamptz",
			r.info.CastType(r.cfg.Columns.Timestamp)), upper, r.below.Cutoff).Scan(&past)
		if err != nil {
			return "", postgres.QueryFault("table "+r.table.String(), err)
		}
		if past {
			return "", nil
		}
		why = "its range reaches to " + upper
	}
	return why, nil
}

// upperBound is the first value of TO in a bound as Postgres prints it (ruleutils.c, get_range_partbound_string):
// FOR VALUES FROM ('…', …) TO ('…', …). It is none where that is MAXVALUE.
func upperBound(bound string) (string, bool) {
	quoted, at := false, -1
	for i := 0; i < len(bound) && at < 0; i++ {
		switch {
		case bound[i] == '\'':
			quoted = !quoted // a doubled one twice
		case !quoted && strings.HasPrefix(bound[i:], " TO ('"):
			at = i + len(" TO ('")
		}
	}
	if at < 0 {
		return "", false
	}
	value, _, ok := strings.Cut(bound[at:], "'")
	return value, ok
}

// uncertain is the rows that do not lie below the horizon.
func (r *Rows) uncertain() string {
	return "(" + r.below.where(identifier.Quote(r.cfg.Columns.Timestamp)) + ") IS NOT TRUE"
}

// Weigh counts the partition's rows.
func (r *Rows) Weigh(ctx context.Context, p *Partition) error {
	err := r.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*), count(*) FILTER (WHERE %s) FROM ONLY %s", r.uncertain(),
		p.Table.SQL())).Scan(&p.Rows, &p.Later)
	if err != nil {
		return postgres.QueryFault("table "+p.Table.String(), err)
	}
	p.Weighed = true
	return nil
}

// PreparedOn names the prepared transactions that hold a lock on one of the tables: they have written there, or read,
// and nothing that needs the table for itself gets it before they are over.
func (r *Rows) PreparedOn(ctx context.Context, tables ...uint32) ([]string, error) {
	rows, err := r.conn.Query(ctx,
		`SELECT DISTINCT x.gid FROM pg_catalog.pg_locks l`+postgres.JoinHolder+`
		WHERE l.locktype = 'relation' AND x.gid IS NOT NULL AND l.database = (SELECT oid FROM pg_catalog.pg_database
			WHERE datname = current_database()) AND l.relation = ANY ($1::oid[]) ORDER BY 1`, tables)
	if err == nil {
		var gids []string
		if gids, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
			return gids, nil
		}
	}
	return nil, postgres.QueryFault("table "+r.table.String(), err)
}

// Root is the oid of the partitioned table, after Partitions.
func (r *Rows) Root() uint32 { return r.root }

// Detach takes the partition out, or finishes that, without blocking other sessions: it waits until the sessions that
// use the table now are done with it. A limit that runs out leaves it pending.
func (r *Rows) Detach(ctx context.Context, p *Partition, limit time.Duration) error {
	if err := r.Limit(ctx, 0, limit); err != nil {
		return err
	}
	sql := fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s FINALIZE", p.Parent.SQL(), p.Table.SQL())
	if p.State == Attached {
		if _, err := r.conn.Exec(ctx,
			fmt.Sprintf("COMMENT ON TABLE %s IS %s", p.Table.SQL(),
				identifier.QuoteLiteral(leavingComment(r.root)))); err != nil {
			return postgres.QueryFault("table "+p.Table.String(), err)
		}
		sql = fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s CONCURRENTLY", p.Parent.SQL(), p.Table.SQL())
		p.State = Pending
	}
	if _, err := r.conn.Exec(ctx, sql); err != nil {
		return postgres.QueryFault("table "+p.Table.String(), err)
	}
	p.State = Detached
	return nil
}

// errLater ends the transaction that would drop a partition, errWaited a transaction that another session waits for.
var (
	errLater  = errors.New("rows came in meanwhile")
	errWaited = errors.New("another session waits for it")
)

// Drop drops the partition unless a row in it does not lie below the horizon, or there are more rows than there were;
// it names which. Of one that is still attached the parent is needed for itself, too, which has every statement on the
// table wait: so each try is given up after lock, and the pauses between them grow until limit.
func (r *Rows) Drop(ctx context.Context, p *Partition, lock, limit time.Duration) (dropped bool, err error) {
	var deadlock int64
	if err := r.conn.QueryRow(ctx,
		"SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'deadlock_timeout'").Scan(&deadlock); err !=
		nil {
		return false, postgres.QueryFault("server", err)
	}
	if err := r.Limit(ctx, min(lock, max(time.Duration(deadlock)*time.Millisecond/2, time.Millisecond)), 0); err !=
		nil {
		return false, err
	}
	deadline := time.Now().Add(limit)
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err = pgx.BeginTxFunc(ctx, r.conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return r.drop(ctx, tx, p)
		})
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, errLater):
			return false, nil
		}
		if state := sqlstate.Of(err); state != sqlstate.LockNotAvailable && state != sqlstate.DeadlockDetected &&
			!errors.Is(err, errWaited) {
			return false, postgres.QueryFault("table "+p.Table.String(), err)
		}
		if time.Now().Add(pause).After(deadline) {
			return false, &fault.Error{
				Kind: fault.Retry, Object: "table " + p.Table.String(),
				Err:  fmt.Errorf("it or its parent is in use: no lock within %s, tried for %s", lock, limit),
				Next: "Prune again at a quieter time. The command shows which sessions use it.",
				Commands: []string{fmt.Sprintf("SELECT pid, mode, granted, relation::regclass, pg_blocking_pids(pid) "+
					"FROM pg_locks WHERE relation IN (%d, %d);", p.OID, r.root)},
			}
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// drop looks under a lock that lets readers in and writers not; transactions that have written there have ended then,
// prepared ones, too (Postgres docs 13.3.1).
//
// A writer that comes by the root has locked that, and may wait here for the partition while we go on to wait for the
// root. The server must not end that writer over the deadlock: a session that waits already is let in first, and a
// later session will not look for a deadlock before deadlock_timeout, twice as long as we wait.
func (r *Rows) drop(ctx context.Context, tx pgx.Tx, p *Partition) error {
	if _, err := tx.Exec(ctx, fmt.Sprintf("LOCK TABLE ONLY %s IN SHARE MODE", p.Table.SQL())); err != nil {
		return err
	}
	var same, waited bool
	var rows, later int64
	err := tx.QueryRow(ctx, fmt.Sprintf("SELECT $1::text::regclass::oid = $2::oid, count(*), count(*) FILTER (WHERE "+
		"%s) FROM ONLY %s", r.uncertain(), p.Table.SQL()), p.Table.SQL(), p.OID).
		Scan(&same, &rows, &later)
	if err != nil {
		return err
	}
	if later > 0 || rows > p.Rows || !same {
		p.Later = later
		return errLater
	}
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'relation' AND relation "+
		"= $1::oid AND NOT granted)", p.OID).Scan(&waited)
	switch {
	case err != nil:
		return err
	case waited:
		return errWaited
	}
	_, err = tx.Exec(ctx, "DROP TABLE "+p.Table.SQL())
	return err
}
