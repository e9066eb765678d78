package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// codeOtherRows is the code of the finding about rows that the walsender decodes and does not send. Programs rely on
// it.
const codeOtherRows = "other_rows"

// written counts the rows that the logged tables of the database got since its statistics were reset.
type written struct {
	events int64 // inserted into the outbox tables
	all    int64 // inserted, updated or deleted in any table of an application
	at     time.Time
}

// otherRows says how many of the written rows are not events.
type otherRows struct {
	events, others int64
	over           time.Duration // 0: since the statistics were reset
}

// manyRows is how many rows have to be written in a window before its share is worth more than the share of all rows.
const manyRows = 1000

// sawWritten compares two readings: the rows in between where these are many, otherwise all.
func sawWritten(first, second written) otherRows {
	now := otherRows{events: second.events - first.events, over: second.at.Sub(first.at)}
	now.others = second.all - first.all - now.events
	if now.events >= 0 && now.others >= 0 && now.events+now.others >= manyRows && now.over > 0 {
		return now
	}
	return otherRows{events: second.events, others: max(second.all-second.events, 0)}
}

// lookupWritten leaves out catalogs, TOAST, and tables that write no WAL. An event is a row of an outbox table or of
// one of its partitions. The zero value: not known, as on a standby, which counts nothing.
func lookupWritten(ctx context.Context, q postgres.Querier, tables []identifier.Table) written {
	var schemas, names []string
	for _, t := range tables {
		schemas, names = append(schemas, t.Schema), append(names, t.Name)
	}
	var w written
	err := q.QueryRow(ctx, `
		WITH outbox AS (SELECT p.relid FROM unnest($1::text[], $2::text[]) o(nspname, relname)
		       JOIN pg_catalog.pg_namespace n ON n.nspname = o.nspname
		       JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = o.relname,
		       LATERAL (SELECT c.oid AS relid UNION SELECT relid FROM pg_catalog.pg_partition_tree(c.oid)) p)
		SELECT coalesce(sum(s.n_tup_ins) FILTER (WHERE s.relid IN (SELECT relid FROM outbox)), 0)::bigint,
		       coalesce(sum(s.n_tup_ins + s.n_tup_upd + s.n_tup_del), 0)::bigint
		  FROM pg_catalog.pg_stat_user_tables s JOIN pg_catalog.pg_class c ON c.oid = s.relid
		 WHERE c.relpersistence = 'p'`, schemas, names).Scan(&w.events, &w.all)
	if err != nil {
		return written{}
	}
	w.at = time.Now()
	return w
}

// otherRowCosts and eventCosts are seconds of a walsender's CPU per row, measured with rows of 256 and 333 bytes on the
// machine of docs/scaling.md. Their ratio depends less on the machine than they do.
const (
	otherRowCosts = 1.4e-6
	eventCosts    = 6.0e-6
)

// checkOtherRows is for information: it shows what it costs that the outbox shares a database with busy tables.
func checkOtherRows(st state) []preflight.Finding {
	r := st.Written
	total := r.events + r.others
	if total < manyRows {
		return nil
	}
	when, load := "since its statistics were reset", ""
	if r.over > 0 {
		when = "in the last " + period(r.over)
		load = fmt.Sprintf(", here %.1f %% of a core", float64(r.others)/r.over.Seconds()*otherRowCosts*100)
	}
	f := preflight.Fine("rows of other tables", fmt.Sprintf("%d %% of the rows that were written in this database %s "+
		"are not events (%d of %d). The walsender decodes such a row and does not send it, for about a quarter of "+
		"what an event costs: %.1f s of its CPU per million rows%s, beside %.1f s per million events, on a small "+
		"machine.", 100*r.others/total, when, r.others, total, otherRowCosts*1e6, load, eventCosts*1e6))
	f.Code = codeOtherRows
	return []preflight.Finding{f}
}
