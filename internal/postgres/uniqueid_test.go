package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestUniqueIDs: what keeps ids unique, in each form of a table; the printed commands end the finding.
//
// Bug (rows): Nothing looked whether two rows could have one id, by which consumers, find and repair know an event.
// Cost: consumers passed over the second event, and repair said that none was missing.
func TestUniqueIDs(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	db := testkit.Postgres(t)
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	plain := func(index string) string {
		return "CREATE TABLE \"Box\" (\"Id\" uuid, at timestamptz NOT NULL);" + index
	}
	parted := func(key, index string) string {
		return "CREATE TABLE \"Box\" (\"Id\" uuid, at timestamptz NOT NULL) PARTITION BY RANGE (" + key + ");" + index
	}
	const on = " ON \"Box\" "
	for name, test := range map[string]struct {
		sql    string
		unique bool
	}{
		"primary key":         {plain("ALTER TABLE \"Box\" ADD PRIMARY KEY (\"Id\")"), true},
		"unique index":        {plain("CREATE UNIQUE INDEX" + on + "(\"Id\") INCLUDE (at)"), true},
		"deferred constraint": {plain("ALTER TABLE \"Box\" ADD UNIQUE (\"Id\") DEFERRABLE"), true},
		"nothing":             {plain(""), false},
		"an index":            {plain("CREATE INDEX" + on + "(\"Id\")"), false},
		"with another column": {plain("CREATE UNIQUE INDEX" + on + "(\"Id\", at)"), false},
		"another column":      {plain("CREATE UNIQUE INDEX" + on + "(at) INCLUDE (\"Id\")"), false},
		"a part of the rows":  {plain("CREATE UNIQUE INDEX" + on + "(\"Id\") WHERE at > '2020-01-01'"), false},
		"an expression":       {plain("CREATE UNIQUE INDEX" + on + "((\"Id\"::text))"), false},
		"partitions by time":  {parted("at", "CREATE UNIQUE INDEX"+on+"(\"Id\", at)"), true},
		"partitions by id":    {parted("\"Id\"", "CREATE UNIQUE INDEX"+on+"(\"Id\")"), true},
		"partitions alone":    {parted("at", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			db.Exec(t, "DROP TABLE IF EXISTS \"Box\"")
			db.Exec(t, test.sql)
			look := func() *OutboxTable {
				found, err := LookupTable(t.Context(), conn, identifier.Table{Schema: "public", Name: "Box"})
				require.NoError(t, err)
				return &found
			}
			f := CheckUniqueID(*look(), "Id")
			require.Equal(t, test.unique, f == nil)
			require.Nil(t, CheckUniqueID(*look(), "none"), "a column that is missing has a finding of its own")
			if test.unique {
				return
			}
			for _, sql := range f.Commands {
				_, err := conn.Exec(t.Context(), sql)
				require.NoError(t, err, sql)
			}
			require.Nil(t, CheckUniqueID(*look(), "Id"))
		})
	}
}
