package replication

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
)

// memoryInfo is the table that remembers the slot's position, as the catalog has it.
type memoryInfo struct {
	Wanted    bool
	Exists    bool
	Usable    bool // by the connected role
	MayCreate bool // the connected role, in the table's schema
}

func lookupMemory(ctx context.Context, q Querier, t identifier.Table) (memoryInfo, error) {
	m := memoryInfo{Wanted: t.Name != ""}
	if !m.Wanted {
		return m, nil
	}
	err := q.QueryRow(ctx, `
		SELECT c.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
		       AND has_table_privilege(c.oid, 'UPDATE'), false), has_schema_privilege(n.oid, 'CREATE')
		  FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = $2::text
		 WHERE n.nspname = $1::text`, t.Schema, t.Name).Scan(&m.Exists, &m.Usable, &m.MayCreate)
	if err == pgx.ErrNoRows {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("read table %s: %w", t, err)
	}
	return m, nil
}

// memoryDDL is the table in which each slot has a row: everything up to position that came through it is published. The
// fill factor leaves room for the row's next version on its own page, so that nothing has to be vacuumed.
func memoryDDL(t identifier.Table) string {
	return fmt.Sprintf("CREATE TABLE %s (slot text PRIMARY KEY, system_id text NOT NULL, timeline int NOT NULL, position pg_lsn NOT NULL,\n"+
		"  updated_at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 10);", t.SQL())
}

// planMemory creates the table and lets the role use it.
func planMemory(cfg AdminConfig, st setupState) []Step {
	var steps []Step
	if cfg.Memory.Name == "" || cfg.onlyNeeded && !st.Memory.MayCreate {
		return nil
	}
	if !st.Memory.Exists && !(cfg.onlyNeeded && (st.Publication.Exists || st.Slot.Exists)) {
		steps = append(steps, Step{SQL: memoryDDL(cfg.Memory),
			Why: "Remembers how far the slot is confirmed, so that one that is made anew or moved by hand is noticed. One row a slot, updated once a second at most."})
	}
	if cfg.Role != "" && !st.Role.Remembering {
		steps = append(steps, Step{SQL: fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE %s TO %s;", cfg.Memory.SQL(), identifier.Quote(cfg.Role)),
			Why: "It writes down there how far the slot is confirmed."})
	}
	return steps
}

// forget removes what is remembered of a slot, since another one takes its name.
func forget(cfg AdminConfig) string {
	return fmt.Sprintf("DELETE FROM %s WHERE slot = %s;", cfg.Memory.SQL(), identifier.QuoteLiteral(cfg.Slot))
}

func checkMemory(cfg AdminConfig, st setupState) []preflight.Finding {
	m := st.Memory
	if !m.Wanted || st.Server.InRecovery && st.Primary == nil {
		return nil
	}
	subject := "table " + cfg.Memory.String()
	const why = "A slot that was dropped and made anew, or moved by hand, looks like the one before; what lies between would be missed by nobody."
	switch {
	case m.Exists && m.Usable:
		return []preflight.Finding{okFinding(subject, "It remembers how far the slot is confirmed.")}
	case m.Exists:
		return []preflight.Finding{{Level: preflight.Warn, Subject: subject, Found: fmt.Sprintf("Role %q may not use it.", st.Server.User), Why: why,
			Remedy: fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE %s TO %s;", cfg.Memory.SQL(), identifier.Quote(st.Server.User))}}
	case !st.Slot.Exists && !st.Publication.Exists:
		return nil // made with them
	}
	return []preflight.Finding{{Level: preflight.Warn, Subject: subject, Found: "Nothing remembers how far the slot is confirmed.", Why: why,
		Remedy: "-- `cdc-outbox setup` does this; or set postgres.checkpoint to nothing\n" + memoryDDL(cfg.Memory) +
			fmt.Sprintf("\nGRANT SELECT, INSERT, UPDATE, DELETE ON TABLE %s TO %s;", cfg.Memory.SQL(), identifier.Quote(st.Server.User))}}
}
