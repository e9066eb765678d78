package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
)

// state is all that Setup, Ensure and Preflight look at. Reading it and judging it are apart, so that the
// judgement can be tested without a server.
type state struct {
	Server      postgres.Server  // where the slot is
	Primary     *postgres.Server // of a standby, where something leads there
	WAL         walRate          // read for check only
	Written     otherRows        // read for check only
	Readers     []string         // slots that may read the publication, but ours; read for teardown only
	Limits      []postgres.Limit // of the session that checks; read for check only
	Keepalives  int              // see postgres.LookupLimits; read for check only
	Standbys    *standbys.Look   // nil on a standby; read for check only
	Failovers   []standbys.Forecast
	Unsurveyed  error    // why there are no forecasts
	Role        roleInfo // the role that AdminConfig.Role names
	Publication postgres.Publication
	Filters     map[identifier.Table]filterSet // of the tables that the publication filters
	Schemas     []string                       // that the publication holds; read only if there is a hypertable
	Slot        postgres.Slot
	Others      []string // the database's slots; read for check only, where Slot does not exist
	Relays      []string // that read the publication through other slots
	Undecodable error    // see servers.peek; read for check and slot only
	Writers     writersWait
	Tables      []postgres.OutboxTable
	Checkpoint  checkpointInfo
	Decisions   decisionsInfo
	Gaps        gapsInfo
	Remembered  bool // the checkpoint has a row of the slot; read for Config.NewSlot only
	Snapshot    snapshot.ListState
	MayList     bool // the session's role may make the list of a heal; read for Config.Heals only
}

// roleInfo is a role and what it lacks.
type roleInfo struct {
	Name         string
	Exists       bool
	MayLogIn     bool
	MayReplicate bool
	MayConnect   bool
	Using        map[string]bool           // schema: has USAGE
	Selecting    map[identifier.Table]bool // table: has SELECT
	MayStore     bool                      // may write the checkpoint
	MayList      bool                      // see state.MayList
}

func lookupRole(ctx context.Context, q postgres.Querier, name string, service cloud.Service,
	tables []postgres.OutboxTable,
) (roleInfo, error) {
	r := roleInfo{Name: name, Exists: true, Using: map[string]bool{}, Selecting: map[identifier.Table]bool{}}
	if name == "" {
		return r, nil
	}
	err := q.QueryRow(ctx, `
		SELECT r.rolcanlogin, r.rolsuper OR r.rolreplication OR $2::bool AND EXISTS (SELECT FROM pg_catalog.pg_roles g
		         WHERE g.rolname = 'rds_replication' AND pg_has_role(r.oid, g.oid, 'MEMBER')),
		       has_database_privilege(r.oid, current_database(), 'CONNECT')
		  FROM pg_catalog.pg_roles r WHERE r.rolname = $1::text`, name,
		service.GrantsReplication()).Scan(&r.MayLogIn, &r.MayReplicate, &r.MayConnect)
	if errors.Is(err, pgx.ErrNoRows) {
		r.Exists = false
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read role %q: %w", name, err)
	}
	for _, t := range tables {
		if !t.Exists {
			continue
		}
		var use, read bool
		err := q.QueryRow(ctx,
			`SELECT has_schema_privilege($1::text, n.oid, 'USAGE'), has_table_privilege($1::text, c.oid, 'SELECT')
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $2::text AND c.relname = $3::text`, name, t.Table.Schema, t.Table.Name).Scan(&use, &read)
		if err != nil {
			return r, fmt.Errorf("read the grants of role %q: %w", name, err)
		}
		r.Using[t.Table.Schema], r.Selecting[t.Table] = use, read
	}
	return r, nil
}

func readState(ctx context.Context, q postgres.Querier, cfg Config) (state, error) {
	var st state
	var err error
	if st.Server, err = postgres.LookupServer(ctx, q); err != nil {
		return st, err
	}
	for _, t := range cfg.Tables {
		info, err := postgres.LookupTable(ctx, q, t)
		if err != nil {
			return st, err
		}
		st.Tables = append(st.Tables, info)
	}
	if st.Role, err = lookupRole(ctx, q, cfg.Role, st.Server.Service, st.Tables); err != nil {
		return st, err
	}
	if st.Checkpoint, err = lookupCheckpointTable(ctx, q, cfg.Checkpoint, cfg.Slot); err != nil {
		return st, err
	}
	if st.Decisions, err = lookupDecisionsTable(ctx, q, cfg.Decisions, cfg.Role); err != nil {
		return st, err
	}
	if st.Gaps, err = lookupGaps(ctx, q, cfg); err != nil {
		return st, err
	}
	if st.Checkpoint.Exists && cfg.Role != "" && st.Role.Exists {
		err := q.QueryRow(ctx,
			`SELECT bool_and(has_table_privilege($1::text, $2::text, p))
				FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p`,
			cfg.Role, cfg.Checkpoint.SQL()).Scan(&st.Role.MayStore)
		if err != nil {
			return st, fmt.Errorf("read the grants of role %q: %w", cfg.Role, err)
		}
	}
	if st.Snapshot, err = snapshot.LookupList(ctx, q, snapshot.List(cfg.Objects)); err != nil {
		return st, err
	}
	if err := st.readMayList(ctx, q, cfg); err != nil {
		return st, err
	}
	if st.Publication, err = postgres.LookupPublication(ctx, q, cfg.Publication); err != nil {
		return st, err
	}
	if err := errors.Join(st.readFilters(ctx, q, cfg), st.readSchemas(ctx, q)); err != nil {
		return st, err
	}
	if cfg.NewSlot && st.Checkpoint.Usable {
		sql := fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE slot = $1::text)`, cfg.Checkpoint.SQL())
		err := q.QueryRow(ctx, sql, cfg.Slot).Scan(&st.Remembered)
		if err != nil {
			return st, fmt.Errorf("read the checkpoint: %w", err)
		}
	}
	st.Slot, err = postgres.LookupSlot(ctx, q, cfg.Slot)
	return st, err
}
