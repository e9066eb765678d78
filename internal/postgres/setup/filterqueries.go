package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// sharesSQL reads the other publications that filter the table's rows. A publication that sends all of them is another
// reader's, and no part of a set.
const sharesSQL = `
SELECT coalesce(jsonb_agg(jsonb_build_object('publication', p.pubname, 'filter', t.rowfilter) ORDER BY p.pubname),
         '[]')::text
  FROM pg_catalog.pg_publication_tables t JOIN pg_catalog.pg_publication p ON p.pubname = t.pubname
 WHERE t.schemaname = $1::text AND t.tablename = $2::text AND t.rowfilter IS NOT NULL AND p.pubinsert
   AND p.pubname <> $3::text`

// readFilters reads, for each table that the publication filters, the publications that it shares the table with.
// Without a filter, which is nearly always, it asks nothing.
func (st *state) readFilters(ctx context.Context, q postgres.Querier, cfg Config) error {
	st.Filters = map[identifier.Table]filterSet{}
	for _, t := range st.Tables {
		pt, ok := st.Publication.Table(t.Table)
		if !ok || pt.RowFilter == "" {
			continue
		}
		var rows []byte
		err := q.QueryRow(ctx, sharesSQL, t.Table.Schema, t.Table.Name, cfg.Publication).Scan(&rows)
		var others []filterShare
		if err == nil {
			err = json.Unmarshal(rows, &others)
		}
		if err != nil {
			return fmt.Errorf("read the publications of %s: %w", t.Table, err)
		}
		set := filterSet{Slots: -1, Shares: append([]filterShare{{cfg.Publication, pt.RowFilter}}, others...)}
		if len(others) > 0 {
			if v := judgeFilters(set, t); v.Doubt != "" {
				set.Sample = sampleFilters(ctx, q, set, t, cfg.Columns.ID)
			}
			set.Slots = rememberedSlots(ctx, q, cfg, st.Checkpoint)
		}
		st.Filters[t.Table] = set
	}
	return nil
}

// rememberedSlots counts the slots of this database that a relay has read, as far as the checkpoint has them; -1: not
// known. No table records which publication a slot reads.
func rememberedSlots(ctx context.Context, q postgres.Querier, cfg Config, c checkpointInfo) int {
	if !c.Usable {
		return -1
	}
	n := -1
	err := q.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %s c JOIN pg_catalog.pg_replication_slots s
		ON s.slot_name = c.slot AND s.database = current_database()`, cfg.Checkpoint.SQL())).Scan(&n)
	if err != nil {
		return -1
	}
	return n
}

const (
	sampledRows = 10_000 // the last ones by id
	sampleLimit = "2s"
)

// sampleFilters has the server evaluate the filters on rows of the table, in a transaction of its own that changes
// nothing and is short. What goes wrong is part of the answer.
func sampleFilters(ctx context.Context, q postgres.Querier, set filterSet, t postgres.OutboxTable, id string,
) (s filterSample) {
	conn, ok := q.(interface {
		Begin(context.Context) (pgx.Tx, error)
	})
	if !t.Selectable || !ok {
		return filterSample{Err: "the role may not read the table"}
	}
	tx, err := conn.Begin(ctx)
	if err == nil {
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		_, err = tx.Exec(ctx, `SET LOCAL statement_timeout = '`+sampleLimit+`'`)
	}
	if err == nil {
		err = tx.QueryRow(ctx, sampleSQL(set, t, id)).Scan(&s.Rows, &s.None, &s.Many, &s.NoneExample, &s.Example)
	}
	var answer *pgconn.PgError
	switch {
	case sqlstate.Of(err) == sqlstate.QueryCanceled:
		return filterSample{Err: "trying them on rows took longer than " + sampleLimit}
	case errors.As(err, &answer):
		return filterSample{Err: "trying them on rows failed: " + answer.Message}
	case err != nil:
		return filterSample{Err: "trying them on rows failed"}
	}
	return s
}

// sampleSQL counts the filters that hold for each row. A filter that is NULL does not hold.
func sampleSQL(set filterSet, t postgres.OutboxTable, id string) string {
	var held []string
	for _, s := range set.Shares {
		held = append(held, "coalesce("+s.Filter+", false)::int")
	}
	order, shown := "", "''"
	if _, ok := t.Column(id); ok {
		shown = identifier.Quote(id) + "::text"
		order = " ORDER BY " + identifier.Quote(id) + " DESC"
	}
	return fmt.Sprintf(`SELECT count(*), count(*) FILTER (WHERE n = 0), count(*) FILTER (WHERE n > 1),
		coalesce((array_agg(e) FILTER (WHERE n = 0))[1], ''), coalesce((array_agg(e) FILTER (WHERE n > 1))[1], '')
		FROM (SELECT %s AS n, %s AS e FROM (SELECT * FROM %s%s LIMIT %d) r) x`,
		strings.Join(held, " + "), shown, t.Table.SQL(), order, sampledRows)
}

// noneSQL lists the rows that no filter holds for.
func (s filterSet) noneSQL(t postgres.OutboxTable) string {
	var held []string
	for _, share := range s.Shares {
		held = append(held, share.Filter)
	}
	return fmt.Sprintf("SELECT * FROM %s WHERE (%s) IS NOT TRUE;", t.Table.SQL(), strings.Join(held, " OR "))
}
