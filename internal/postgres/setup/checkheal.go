package setup

import (
	"context"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
)

// readMayList reads who may make the list of a heal.
func (st *state) readMayList(ctx context.Context, q postgres.Querier, cfg Config) error {
	if !cfg.Heals || len(cfg.Tables) == 0 {
		return nil
	}
	role, exists := st.Server.User, cfg.Role != "" && st.Role.Exists
	if exists {
		role = cfg.Role
	}
	var roleMay bool
	err := q.QueryRow(ctx, `SELECT coalesce(has_schema_privilege(n.oid, 'CREATE'), false),
			coalesce(has_schema_privilege($2::text, n.oid, 'CREATE'), false)
		FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1::text`, cfg.Tables[0].Schema, role).
		Scan(&st.MayList, &roleMay)
	if err != nil {
		return fmt.Errorf("read the rights in schema %s: %w", cfg.Tables[0].Schema, err)
	}
	st.Role.MayList = exists && roleMay
	return nil
}

func (cfg Config) grantList(role string) string {
	return fmt.Sprintf("GRANT CREATE ON SCHEMA %s TO %s;", identifier.Quote(cfg.Tables[0].Schema),
		identifier.Quote(role))
}

// mayNotList is the fault of a role that may not make the list.
func mayNotList(cfg Config, st state) error {
	return (&fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("role %q", st.Server.User),
		Err: fmt.Errorf("the slot is lost, and to heal it the role has to make the table %s, for which it lacks "+
			"CREATE on the schema", snapshot.List(cfg.Objects)),
	}).With(fault.Do("Grant it, then start the connector.", cfg.grantList(st.Server.User)))
}

// checkHeal reports whether a lost slot would be healed.
func checkHeal(cfg Config, st state) []preflight.Finding {
	if !cfg.Heals || st.Server.InRecovery || len(cfg.Tables) == 0 {
		return nil
	}
	if !st.MayList {
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: "on_gap",
			Found: fmt.Sprintf("It is heal, and role %q lacks CREATE on schema %s.", st.Server.User,
				cfg.Tables[0].Schema),
			Why:    "A lost slot would not be healed: the rows that Kafka does not have are listed in a table.",
			Remedy: "Grant it.", Commands: []string{cfg.grantList(st.Server.User)},
		}}
	}
	return []preflight.Finding{preflight.Fine("on_gap", "It is heal: a lost slot is made again, and what it missed is "+
		"published first.")}
}

// orHeal adds to the findings about a lost slot that the connector heals it.
func orHeal(cfg Config, st state, out []preflight.Finding) []preflight.Finding {
	lost := st.Slot.Invalidated() || !st.Slot.Exists && st.Publication.Exists && st.Checkpoint.Confirmed != nil
	if !cfg.Heals || !lost {
		return out
	}
	for i := range out {
		if f := &out[i]; f.Level == preflight.Fail && f.Subject == cfg.SlotSubject() {
			f.Remedy = HealFirst + f.Remedy
		}
	}
	return out
}

// HealFirst precedes the remedy for a lost slot where the connector heals it.
const HealFirst = "Start the connector: on_gap: heal replaces the slot, and publishes what it missed. If that is " +
	"refused: "
