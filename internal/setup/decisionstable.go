package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/decision"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
)

// decisionsInfo is the table of operators' decisions, as the catalog has it.
type decisionsInfo struct {
	Exists    bool
	Usable    bool // by the connected role
	MayCreate bool // the connected role, in the table's schema
	Granted   bool // to the role that setup is for
}

func lookupDecisionsTable(ctx context.Context, q postgres.Querier, t identifier.Table, role string,
) (d decisionsInfo, err error) {
	if t.Name == "" {
		return d, nil
	}
	err = q.QueryRow(ctx, `
		SELECT c.oid IS NOT NULL, coalesce(has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
		       AND has_table_privilege(c.oid, 'UPDATE'), false), has_schema_privilege(n.oid, 'CREATE'),
		       coalesce((SELECT has_table_privilege(r.oid, c.oid, 'SELECT')
		           AND has_table_privilege(r.oid, c.oid, 'INSERT') AND has_table_privilege(r.oid, c.oid, 'UPDATE')
		           FROM pg_catalog.pg_roles r
		           WHERE r.rolname = $3::text), false)
		  FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
		    AND c.relname = $2::text
		 WHERE n.nspname = $1::text`, t.Schema, t.Name, role).Scan(&d.Exists, &d.Usable, &d.MayCreate, &d.Granted)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("read table %s: %w", t, err)
	}
	return d, nil
}

// planDecisions creates the table and lets the role use it. A start that creates only what it needs does so with a new
// publication and slot.
func planDecisions(cfg Config, st state) []Step {
	var steps []Step
	begun := st.Publication.Exists || st.Slot.Exists
	if cfg.Decisions.Name == "" || cfg.onlyNeeded && (!st.Decisions.MayCreate || begun) {
		return nil
	}
	if !st.Decisions.Exists {
		steps = append(steps, Step{
			SQL: decision.DDL(cfg.Decisions),
			Why: "Operators decide there about a running connector: to pass a halted row, to pause, to resume.",
		})
	}
	if cfg.Role != "" && !st.Decisions.Granted {
		steps = append(steps, Step{
			SQL: fmt.Sprintf("GRANT %s ON TABLE %s TO %s;", decision.Rights, cfg.Decisions.SQL(),
				identifier.Quote(cfg.Role)),
			Why: "It reads the decisions, and writes down when it took them up.",
		})
	}
	return steps
}

func checkDecisions(cfg Config, st state) []preflight.Finding {
	subject := "table " + cfg.Decisions.String()
	const why = "Without it, a halted row can be passed only by a policy for all such rows and a restart, and the " +
		"connector cannot be paused."
	switch {
	case cfg.Decisions.Name == "" || st.Server.InRecovery || !st.Slot.Exists && !st.Publication.Exists:
		return nil
	case !st.Decisions.Exists:
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: subject, Found: "It does not exist, so nothing can be decided while the " +
				"connector runs.",
			Why: why, Remedy: "Create it.", Commands: []string{"cdc-outbox setup"},
		}}
	case !st.Decisions.Usable:
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: subject, Found: fmt.Sprintf("Role %q may not use it.", st.Server.User),
			Why: why, Remedy: "Grant the rights.",
			Commands: []string{fmt.Sprintf("GRANT %s ON TABLE %s TO %s;", decision.Rights, cfg.Decisions.SQL(),
				identifier.Quote(st.Server.User))},
		}}
	}
	return []preflight.Finding{preflight.Fine(subject, "Operators can decide about a running connector there.")}
}
