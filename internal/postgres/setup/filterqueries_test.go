package setup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// filtered publishes the table by the filters: the first in the publication of the configuration.
func (db *adminDB) filtered(t *testing.T, filters ...string) {
	t.Helper()
	for i, f := range filters {
		if i == 0 {
			db.Exec(t, `ALTER PUBLICATION `+identifier.Quote(db.Publication)+` SET TABLE outbox WHERE (`+f+`)`)
			continue
		}
		db.Exec(t, `CREATE PUBLICATION other_`+string(rune('0'+i))+` FOR TABLE outbox WHERE (`+f+
			`) WITH (publish = 'insert')`)
	}
}

// TestVersionsFiltersAsPrinted: what Postgres prints of a filter is what the judge expects.
func TestVersionsFiltersAsPrinted(t *testing.T) {
	db := newAdminDB(t, filterTable)
	if db.Major() < 15 {
		t.Skip("row filters came with 15")
	}
	for name, c := range filterCases() {
		db.Exec(t, `DROP PUBLICATION IF EXISTS p0, p1, p2, p3`)
		for i, f := range c.filters {
			p := "p" + string(rune('0'+i))
			db.Exec(t, `CREATE PUBLICATION `+p+` FOR TABLE outbox WHERE (`+f+`)`)
			var printed string
			require.NoError(t, db.conn.QueryRow(t.Context(),
				`SELECT rowfilter FROM pg_publication_tables WHERE pubname = $1`, p).Scan(&printed))
			require.Equal(t, f, printed, name)
		}
	}
}

func TestVersionsCheckSharedTable(t *testing.T) {
	row := func(id, aggregate, nickname string) string {
		return `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, nickname)
			VALUES (` + id + `, 'a', '` + aggregate + `', 'c', ` + nickname + `)`
	}
	for name, c := range map[string]struct {
		filters []string
		rows    []string
		level   preflight.Level
		found   string
	}{
		"alone": {[]string{`hashtext(aggregate_id) & 1 = 0`}, nil, preflight.Fail, "has a row filter on it"},
		"mask": {
			[]string{`hashtext(aggregate_id) & 1 = 0`, `hashtext(aggregate_id) & 1 = 1`}, nil, preflight.OK, "Whole:",
		},
		"in": {
			[]string{`aggregate_type IN ('eu', 'us')`, `aggregate_type NOT IN ('eu', 'us')`},
			nil, preflight.OK, "Whole:",
		},
		"remainder": {
			[]string{`hashtext(aggregate_id) % 2 = 0`, `hashtext(aggregate_id) % 2 = 1`}, nil, preflight.Fail, "= -1",
		},
		"remainder of the id, empty": {
			[]string{`id % 2 = 0`, `id % 2 = 1`}, nil, preflight.Warn, "no rows to try",
		},
		"remainder of the id": {
			[]string{`id % 2 = 0`, `id % 2 = 1`},
			[]string{row("1", "x", "NULL"), row("2", "x", "NULL")},
			preflight.OK, "on 2 sampled rows",
		},
		"NULL": {
			[]string{`nickname = 'a'`, `nickname <> 'a'`},
			[]string{row("1", "x", "'a'"), row("7", "x", "NULL")},
			preflight.Fail, "1 of the last 2 rows, for example id 7",
		},
		"coalesce": {
			[]string{`coalesce(nickname, '') = 'a'`, `coalesce(nickname, '') <> 'a'`},
			[]string{row("1", "x", "'a'"), row("7", "x", "NULL")},
			preflight.OK, "on 2 sampled rows",
		},
		"ranges that overlap": {
			[]string{`id <= 10`, `id >= 10`},
			[]string{row("10", "x", "NULL"), row("11", "x", "NULL")},
			preflight.Warn,
			"example id 10",
		},
		"an error": {
			[]string{`10 / shard = 1`, `10 / shard <> 1`},
			[]string{row("10", "x", "NULL")},
			preflight.Warn,
			"division by zero",
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newAdminDB(t, filterTable)
			require.NoError(t, db.ensure(t, true))
			if db.Major() < 15 {
				f := Preflight(t.Context(), db.DSN, db.cfg)
				require.Nil(t, about(f, codeFilters))
				return
			}
			db.filtered(t, c.filters...)
			db.Exec(t, `CREATE PUBLICATION everything FOR TABLE outbox; CREATE PUBLICATION deletes FOR TABLE outbox
				WITH (publish = 'truncate')`)
			for _, sql := range c.rows {
				db.Exec(t, sql)
			}
			err := CheckPublished(t.Context(), db.DSN, db.cfg)
			require.Equal(t, c.level == preflight.Fail, err != nil, "%v", err)
			var found []preflight.Finding
			for _, f := range Preflight(t.Context(), db.DSN, db.cfg) {
				if strings.Contains(f.Found, c.found) {
					found = append(found, f)
				}
			}
			require.Len(t, found, 1)
			require.Equal(t, c.level, found[0].Level)
			if c.level == preflight.Fail && len(c.filters) > 1 {
				db.Exec(t, found[0].Commands[0])
			}
		})
	}
}
