package setup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// timescale is the part of TimescaleDB's catalog that is read, and a hypertable with one chunk, as the extension lays
// them out. The extension itself is not at hand here.
const timescale = `SET allow_system_table_mods = on;
	INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
		SELECT 4294967000, 'timescaledb', 10, oid, false, '2.23.0' FROM pg_namespace WHERE nspname = 'public';
	CREATE SCHEMA _timescaledb_catalog; CREATE SCHEMA _timescaledb_internal;
	CREATE TABLE _timescaledb_catalog.hypertable (id int PRIMARY KEY, schema_name name NOT NULL,
		table_name name NOT NULL, associated_schema_name name NOT NULL);
	INSERT INTO _timescaledb_catalog.hypertable VALUES (1, 'public', 'outbox', '_timescaledb_internal');
	CREATE TABLE _timescaledb_internal._hyper_1_1_chunk () INHERITS (public.outbox)`

// TestVersionsHypertables: named, with one remedy for all of its chunks, also for later ones.
//
// Bug (setup): Each chunk of a hypertable was a finding of its own, to be added "in the transaction that creates it",
// which no person writes. Cost: a connector that stopped at each new chunk, and the rows written until then.
func TestVersionsHypertables(t *testing.T) {
	db := newAdminDB(t, setupTableDDL, timescale)
	requireOperator(t, db.ensure(t, true), "hypertable of TimescaleDB")
	find := func() *preflight.Finding { return about(Preflight(t.Context(), db.DSN, db.cfg), codeHypertable) }
	f := find()
	require.NotNil(t, f)
	require.Equal(t, preflight.Fail, f.Level)
	require.Contains(t, f.Found, "hypertable of TimescaleDB")
	require.Contains(t, f.Remedy, "partitioned table in its place")
	err := CheckPublished(t.Context(), db.DSN, db.cfg)
	requireOperator(t, err, "hypertable of TimescaleDB")
	if db.Major() < 15 {
		db.Exec(t, `DROP PUBLICATION `+identifier.Quote(db.Publication))
		db.Exec(t, `CREATE PUBLICATION `+identifier.Quote(db.Publication)+` FOR ALL TABLES`)
	} else {
		db.paste(t, err)
	}
	db.Exec(t, `CREATE TABLE _timescaledb_internal._hyper_1_2_chunk () INHERITS (public.outbox);
		CREATE TABLE _timescaledb_internal.other (n int)`)
	require.NoError(t, CheckPublished(t.Context(), db.DSN, db.cfg), "a later chunk needs no command")
	f = find()
	require.Equal(t, preflight.Warn, f.Level)
	require.Contains(t, f.Remedy, "never compress")
	for _, f := range Preflight(t.Context(), db.DSN, db.cfg) {
		require.NotContains(t, f.Found, "not configured", "no remedy takes the schema out again")
	}
}
