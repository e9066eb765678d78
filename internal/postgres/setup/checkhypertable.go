package setup

import (
	"context"
	"fmt"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// codeHypertable is the code of findings about hypertables of TimescaleDB. Programs rely on it.
const codeHypertable = "hypertable"

// checkHypertable judges a hypertable whose rows the publication has to send under the names of its chunks: tables that
// an INSERT makes. No command of a person comes before the first row of a chunk, so only a publication of their whole
// schema has them all.
func checkHypertable(cfg Config, st state, t postgres.OutboxTable) preflight.Finding {
	f := preflight.Finding{
		Level: preflight.Fail, Code: codeHypertable, Subject: "table " + t.Table.String(),
		Found: fmt.Sprintf("It is a hypertable of TimescaleDB, and %s does not hold schema %s, in which its chunks "+
			"are made.", cfg.PublicationSubject(), identifier.Quote(t.Chunks)),
		Why: "Rows are written into chunks. One that is made later is in no publication of tables, so its rows are " +
			"never sent.",
	}
	const instead = "Use a partitioned table in its place: `cdc-outbox prune --partitions` drops what is old. "
	switch {
	case st.Publication.AllTables || slices.Contains(st.Schemas, t.Chunks):
		f.Level, f.Found = preflight.Warn, "It is a hypertable of TimescaleDB, and its chunks are published."
		f.Why = "A chunk that is compressed, or decompressed, is rows of other tables to the log: they are passed " +
			"over, halted at, or published again."
		f.Remedy = instead + "Or never compress its chunks."
	case st.Server.Version < 150000:
		f = f.With(fault.Do(instead + "Or name it in a publication FOR ALL TABLES, and never compress its chunks."))
	default:
		f = f.With(fault.Do(instead+"Or add the schema, as a superuser, and never compress its chunks.",
			fmt.Sprintf("ALTER PUBLICATION %s ADD TABLES IN SCHEMA %s;", identifier.Quote(cfg.Publication),
				identifier.Quote(t.Chunks))).Then(postgres.Republish()))
	}
	return f
}

// readSchemas reads which schemas the publication holds as a whole. Without a hypertable it asks nothing.
func (st *state) readSchemas(ctx context.Context, q postgres.Querier) error {
	if st.Server.Version < 150000 || !slices.ContainsFunc(st.Tables, func(t postgres.OutboxTable) bool {
		return t.Chunks != ""
	}) {
		return nil
	}
	err := q.QueryRow(ctx, `SELECT coalesce(array_agg(n.nspname::text), '{}')
		FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_namespace s ON s.pnpubid = p.oid
		JOIN pg_catalog.pg_namespace n ON n.oid = s.pnnspid WHERE p.pubname = $1::text`, st.Publication.Name).
		Scan(&st.Schemas)
	if err != nil {
		return fmt.Errorf("read the schemas of publication %q: %w", st.Publication.Name, err)
	}
	return nil
}
