package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
)

// decisionsInfo is the table of operators' decisions, as the catalog has it.
type decisionsInfo struct {
	Exists    bool
	Usable    bool // by the connected role
	MayCreate bool // the connected role, in the table's schema
	Granted   bool // to the role that setup is for

	Open   bool // it holds a pause or a decision of this slot that is in effect; for teardown
	Shared bool // it holds decisions of other slots; for teardown
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
		steps = append(steps, CreateDecisions(cfg.Decisions))
	}
	if cfg.Role != "" && !st.Decisions.Granted {
		steps = append(steps, GrantDecisions(cfg.Decisions, cfg.Role))
	}
	return steps
}

// CreateDecisions makes the table.
func CreateDecisions(t identifier.Table) Step {
	return Step{
		SQL: statetables.DecisionsDDL(t),
		Why: "Operators decide there about a running connector: to pass a halted row, to pause, to resume.",
	}
}

// GrantDecisions lets the relay's role use the table.
func GrantDecisions(t identifier.Table, role string) Step {
	return Step{
		SQL: fmt.Sprintf("GRANT %s ON TABLE %s TO %s;", statetables.DecisionsRights, t.SQL(), identifier.Quote(role)),
		Why: "It reads the decisions, and writes down when it took them up.",
	}
}

// lookupDecisionsUse reads what teardown has to know.
func lookupDecisionsUse(ctx context.Context, q postgres.Querier, cfg Config, d *decisionsInfo) error {
	if !d.Exists || !d.Usable {
		return nil
	}
	err := q.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(bool_or(relay = $1::text AND closed_at IS NULL), false),
		coalesce(bool_or(relay <> $1::text), false) FROM %s`, cfg.Decisions.SQL()), cfg.Slot).Scan(&d.Open, &d.Shared)
	if err != nil {
		return postgres.QueryFault("table "+cfg.Decisions.String(), err)
	}
	return nil
}

// planDecisionsTeardown ends what is in effect, so that a later slot of this name does not begin paused. The table is
// dropped with the outbox: until then it is the record of who decided what.
func planDecisionsTeardown(cfg Config, st state, dropTables bool) (steps []Step) {
	d := st.Decisions
	if !d.Exists {
		return nil
	}
	drop := fmt.Sprintf("DROP TABLE %s;", cfg.Decisions.SQL())
	if d.Open && (d.Shared || !dropTables) {
		steps = append(steps, Step{
			SQL: fmt.Sprintf("UPDATE %s SET closed_at = now() WHERE relay = %s AND closed_at IS NULL;",
				cfg.Decisions.SQL(), identifier.QuoteLiteral(cfg.Slot)),
			Why: "A pause or a decision about this slot is not one about a later slot of this name.",
		})
	}
	switch {
	case !dropTables:
		return append(steps, Step{
			SQL: "-- " + drop, action: stepKept,
			Why: fmt.Sprintf("Table %s is kept: it is the record of operators' decisions. Drop it if it is not needed.",
				cfg.Decisions),
		})
	case d.Shared:
		return append(steps, Step{
			SQL: "-- " + drop, action: stepKept,
			Why: fmt.Sprintf("Table %s is kept: it holds decisions about other slots.", cfg.Decisions),
		})
	}
	return append(steps, Step{SQL: drop, Why: "Asked for. It is the record of operators' decisions."})
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
			Commands: []string{fmt.Sprintf("GRANT %s ON TABLE %s TO %s;", statetables.DecisionsRights,
				cfg.Decisions.SQL(), identifier.Quote(st.Server.User))},
		}}
	}
	return []preflight.Finding{preflight.Fine(subject, "Operators can decide about a running connector there.")}
}

// PlanDecisions creates the table for a relay that has no slot.
func PlanDecisions(ctx context.Context, q postgres.Querier, t identifier.Table) ([]Step, error) {
	d, err := lookupDecisionsTable(ctx, q, t, "")
	return planDecisions(configOfDecisions(t, ""), state{Decisions: d}), err
}

// CheckDecisions looks at the table of a relay that has no slot, as the connected role, user.
func CheckDecisions(ctx context.Context, q postgres.Querier, t identifier.Table, user string,
) ([]preflight.Finding, error) {
	st := state{}
	st.Server.User, st.Publication.Exists = user, true
	var err error
	st.Decisions, err = lookupDecisionsTable(ctx, q, t, "")
	return checkDecisions(configOfDecisions(t, ""), st), err
}

// PlanDecisionsTeardown ends what is in effect about a relay that has no slot.
func PlanDecisionsTeardown(ctx context.Context, q postgres.Querier, t identifier.Table, relay string, dropTables bool,
) ([]Step, error) {
	cfg := configOfDecisions(t, relay)
	d, err := lookupDecisionsTable(ctx, q, t, "")
	if err == nil {
		err = lookupDecisionsUse(ctx, q, cfg, &d)
	}
	return planDecisionsTeardown(cfg, state{Decisions: d}, dropTables), err
}

func configOfDecisions(t identifier.Table, relay string) (cfg Config) {
	cfg.Decisions, cfg.Slot = t, relay
	return cfg
}
