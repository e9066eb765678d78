package polling

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// statements are the texts for one table. All go by the simple protocol: several in one message, values as text, and
// nothing that a transaction pooler would have to keep for a session.
type statements struct {
	table identifier.Table
	cfg   *Config
	begin string
}

func newStatements(cfg *Config, t identifier.Table) *statements {
	return &statements{table: t, cfg: cfg, begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; " + localSettings()}
}

// frozen is how long the server waits for a transaction's next statement before it ends the session, and the lanes are
// free again. A worker that waits for Kafka sends one every renewEvery.
const frozen = 10 * time.Second

// lockTimeout is how long a mark waits for a row that another session has locked, before it is tried again.
const lockTimeout = 3 * time.Second

// localSettings are the transaction's own, so that they hold through a transaction pooler. The texts of values must not
// depend on the server or the role. Without statistics that fit, or with such as are out of date, a plan could read the
// whole table for each lane: the index of the unpublished rows is the only way that is always good.
func localSettings() string {
	settings := session.TextSettings()
	settings["idle_in_transaction_session_timeout"] = fmt.Sprintf("%dms", frozen.Milliseconds())
	settings["lock_timeout"] = fmt.Sprintf("%dms", lockTimeout.Milliseconds())
	settings["search_path"] = session.SearchPath
	settings["statement_timeout"] = "0" // through a transaction pooler the session has not overridden it
	settings["enable_seqscan"], settings["enable_bitmapscan"], settings["enable_sort"] = "off", "off", "off"
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "SET LOCAL %s = %s; ", identifier.Quote(name), identifier.QuoteLiteral(settings[name]))
	}
	return b.String() + noTransactionTimeout
}

// noTransactionTimeout overrides a limit that came with 17. It has no row on any server.
const noTransactionTimeout = `SELECT WHERE CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
	THEN set_config('transaction_timeout', '0', true) IS NULL ELSE false END; `

func (s *statements) lane() string { return laneSQL(s.cfg.Columns.Key) }

func (s *statements) unpublished() string {
	return identifier.Quote(s.cfg.Columns.Published) + " IS NULL"
}

func (s *statements) sequence() string { return identifier.Quote(s.cfg.Columns.Sequence) }

// look finds at most limit of the lanes that have rows, in the order given. LIMIT 1 keeps the planner from making a
// join of the question, which would read all unpublished rows.
func (s *statements) look(candidates []int, limit int) string {
	return fmt.Sprintf(`SELECT cdc_outbox_lane.l FROM unnest(%s::int[]) WITH ORDINALITY cdc_outbox_lane(l, o)
		CROSS JOIN LATERAL (SELECT FROM %s WHERE %s AND %s = cdc_outbox_lane.l ORDER BY %s LIMIT 1) t
		ORDER BY cdc_outbox_lane.o LIMIT %d`,
		intArray(candidates), s.table.SQL(), s.unpublished(), s.lane(), s.sequence(), limit)
}

// stillThere finds the lanes whose row is unpublished. LIMIT 1 is for the planner, as in look.
func (s *statements) stillThere(halted []*halt) string {
	rows := make([]string, len(halted))
	for i, h := range halted {
		rows[i] = fmt.Sprintf("(%d, %d::bigint)", h.lane, h.seq)
	}
	return fmt.Sprintf(`SELECT cdc_outbox_lane.l FROM (VALUES %s) cdc_outbox_lane(l, s)
		CROSS JOIN LATERAL (SELECT FROM %s WHERE %s AND %s = cdc_outbox_lane.l AND %s = cdc_outbox_lane.s LIMIT 1) t`,
		strings.Join(rows, ", "), s.table.SQL(), s.unpublished(), s.lane(), s.sequence())
}

// claim begins a transaction and tries to lock the lanes that look finds. They are found before a lock is tried, so
// that none is locked that is not asked for (Postgres docs 13.3.5 warns of LIMIT).
func (s *statements) claim(candidates []int, limit int) string {
	return fmt.Sprintf(`%s WITH work AS MATERIALIZED (%s) SELECT l, pg_try_advisory_xact_lock(%d, l) FROM work`,
		s.begin, s.look(candidates, limit), lockClass(s.table))
}

// again begins a transaction and tries to lock lanes.
func (s *statements) again(want []int) string {
	return fmt.Sprintf(`%s SELECT l, pg_try_advisory_xact_lock(%d, l) FROM unnest(%s::int[]) l`, s.begin,
		lockClass(s.table), intArray(want))
}

// keep takes the session's own locks of lanes whose locks the transaction has, and letGo gives them back. A session may
// take a lock again that it holds, also at the other level (Postgres docs 13.3.5). So between the two a transaction can
// end and the next one begin while no other session gets the lanes. Both are sent in one message: a pooler does not
// lend the backend to another client before its end. Neither has a row.
func (s *statements) keep(lanes []int) string { return s.session("pg_try_advisory_lock", lanes) }

func (s *statements) letGo(lanes []int) string { return s.session("pg_advisory_unlock", lanes) }

func (s *statements) session(function string, lanes []int) string {
	return fmt.Sprintf(`SELECT WHERE (SELECT count(%s(%d, l)) FROM unnest(%s::int[]) l) IS NULL`, function,
		lockClass(s.table), intArray(lanes))
}

// ownColumns is how many columns read puts in front of the table's: the lane, the partition, and the address of the
// row's version.
const ownColumns = 3

// read selects the first rows of each lane.
func (s *statements) read(claimed []int, perLane int) string {
	return fmt.Sprintf(`SELECT cdc_outbox_lane.l, t.* FROM unnest(%s::int[]) cdc_outbox_lane(l)
		CROSS JOIN LATERAL (SELECT tableoid, ctid, * FROM %s WHERE %s AND %s = cdc_outbox_lane.l ORDER BY %s
		LIMIT %d) t`,
		intArray(claimed), s.table.SQL(), s.unpublished(), s.lane(), s.sequence(), perLane)
}

// mark says that rows are in Kafka. Their addresses lead to them; one that is marked already, or was deleted, is left
// alone. It has to be the very version that was read: another row by the same number, another one at its old address,
// or a newer version of the row, is not the published one. The rows are listed by address, and the join keeps that
// order: the rows of a page are written one after the other.
func (s *statements) mark(rows []batchRow, indexes []int) string {
	byAddress(rows, indexes)
	n := make([]int64, len(indexes))
	var parts, tids strings.Builder
	for i, at := range indexes {
		n[i] = rows[at].seq
		if i > 0 {
			parts.WriteByte(',')
			tids.WriteByte(',')
		}
		parts.Write(rows[at].part)
		fmt.Fprintf(&tids, `"%s"`, rows[at].tid)
	}
	table := s.table.SQL()
	from := fmt.Sprintf(`unnest(%s::bigint[], '{%s}'::oid[], '{%s}'::tid[]) cdc_outbox_mark(n, p, t)`, intArray(n),
		parts.String(), tids.String())
	where := fmt.Sprintf(`%s AND %s = cdc_outbox_mark.n AND %[3]s.tableoid = cdc_outbox_mark.p
		AND %[3]s.ctid = cdc_outbox_mark.t`, s.unpublished(), s.sequence(), table)
	if s.cfg.After == Delete {
		return fmt.Sprintf(`DELETE FROM %s USING %s WHERE %s`, table, from, where)
	}
	return fmt.Sprintf(`UPDATE %s SET %s = clock_timestamp() FROM %s WHERE %s`,
		table, identifier.Quote(s.cfg.Columns.Published), from, where)
}

// byAddress sorts rows by their address in the table.
func byAddress(rows []batchRow, indexes []int) {
	slices.SortFunc(indexes, func(a, b int) int {
		x, y := &rows[a], &rows[b]
		if c := bytes.Compare(x.part, y.part); c != 0 {
			return c
		}
		xPage, xItem := address(x.tid)
		yPage, yItem := address(y.tid)
		return cmp.Or(cmp.Compare(xPage, yPage), cmp.Compare(xItem, yItem))
	})
}

// address reads a ctid's text, "(page,item)". It only orders rows, so a text that is not one counts as anything.
func address(tid []byte) (page, item int) {
	for _, c := range tid {
		switch {
		case c == ',':
			page, item = item, 0
		case c >= '0' && c <= '9':
			item = 10*item + int(c-'0')
		}
	}
	return page, item
}
