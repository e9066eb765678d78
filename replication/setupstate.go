package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// setupState is all that Setup, Ensure and Preflight look at. Reading it and judging it are apart, so that the
// judgement can be tested without a server.
type setupState struct {
	Server      serverInfo  // where the slot is
	Primary     *serverInfo // of a standby, where something leads there
	Role        roleInfo    // the role that AdminConfig.Role names
	Publication PublicationInfo
	Slot        SlotInfo
	Tables      []tableInfo
	Memory      memoryInfo
	Snapshot    snapshotInfo
}

// serverInfo is the server, the connected database and the connected role.
type serverInfo struct {
	Version       int    `json:"version"` // server_version_num
	VersionText   string `json:"version_text"`
	Database      string `json:"database"`
	User          string `json:"user"`
	Encoding      string `json:"encoding"`
	InRecovery    bool   `json:"in_recovery"`
	WALLevel      string `json:"wal_level"`
	MayReplicate  bool   `json:"may_replicate"`
	MayCreate     bool   `json:"may_create"` // publications, in this database
	MaySeeOthers  bool   `json:"may_see_others"`
	RDSMember     bool   `json:"rds_member"` // of rds_replication, which is what counts on Amazon's services
	MaxSlots      int    `json:"max_slots"`
	UsedSlots     int    `json:"used_slots"`
	MaxSenders    int    `json:"max_senders"`
	UsedSenders   int    `json:"used_senders"`
	SlotWALKeepMB int64  `json:"slot_wal_keep_mb"` // -1: no limit
	IdleTimeout   int64  `json:"idle_timeout"`     // idle_replication_slot_timeout in seconds (18+); 0: off
	SenderTimeout int64  `json:"sender_timeout"`   // wal_sender_timeout in milliseconds; 0: off
	Feedback      bool   `json:"feedback"`         // hot_standby_feedback
	PrimarySlot   string `json:"primary_slot"`     // primary_slot_name
	Upstream      string `json:"upstream"`         // of a standby: host and port of what it follows; empty where the role may not see it

	Service cloud.Service `json:"-"`
	WAL     walRate       `json:"-"` // read for check only
}

const serverSQL = `
SELECT jsonb_build_object(
  'version', current_setting('server_version_num')::int, 'version_text', current_setting('server_version'),
  'database', current_database(), 'user', current_user, 'encoding', current_setting('server_encoding'),
  'in_recovery', pg_is_in_recovery(), 'wal_level', current_setting('wal_level'),
  'may_replicate', r.rolsuper OR r.rolreplication,
  'rds_member', EXISTS (SELECT FROM pg_catalog.pg_roles g WHERE g.rolname = 'rds_replication' AND pg_has_role(g.oid, 'MEMBER')),
  'may_create', has_database_privilege(current_database(), 'CREATE'),
  'may_see_others', pg_has_role('pg_read_all_stats', 'USAGE'),
  'max_slots', current_setting('max_replication_slots')::int,
  'used_slots', (SELECT count(*) FROM pg_catalog.pg_replication_slots),
  'max_senders', current_setting('max_wal_senders')::int,
  'used_senders', (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'walsender'),
  'feedback', current_setting('hot_standby_feedback')::bool, 'primary_slot', current_setting('primary_slot_name'),
  'upstream', (SELECT sender_host || ':' || sender_port FROM pg_catalog.pg_stat_wal_receiver),
  'slot_wal_keep_mb', (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size'),
  'sender_timeout', (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'),
  'idle_timeout', (SELECT extract(epoch FROM (setting || coalesce(unit, 's'))::interval)::bigint
                     FROM pg_catalog.pg_settings WHERE name = 'idle_replication_slot_timeout'))::text
  FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`

func lookupServer(ctx context.Context, q Querier) (serverInfo, error) {
	var row []byte
	if err := q.QueryRow(ctx, serverSQL).Scan(&row); err != nil {
		return serverInfo{}, fmt.Errorf("read the server's settings: %w", err)
	}
	var s serverInfo
	if err := json.Unmarshal(row, &s); err != nil {
		return serverInfo{}, fmt.Errorf("read the server's settings: %w", err)
	}
	facts, err := lookupFacts(ctx, q)
	if err != nil {
		return serverInfo{}, err
	}
	s.Service = cloud.Recognise(facts)
	s.MayReplicate = s.MayReplicate || s.RDSMember && s.Service.GrantsReplication()
	return s, nil
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
	Remembering  bool                      // may use the table of remembered positions
}

func lookupRole(ctx context.Context, q Querier, name string, service cloud.Service, tables []tableInfo) (roleInfo, error) {
	r := roleInfo{Name: name, Exists: true, Using: map[string]bool{}, Selecting: map[identifier.Table]bool{}}
	if name == "" {
		return r, nil
	}
	err := q.QueryRow(ctx, `
		SELECT r.rolcanlogin, r.rolsuper OR r.rolreplication OR $2::bool AND EXISTS (SELECT FROM pg_catalog.pg_roles g
		         WHERE g.rolname = 'rds_replication' AND pg_has_role(r.oid, g.oid, 'MEMBER')),
		       has_database_privilege(r.oid, current_database(), 'CONNECT')
		  FROM pg_catalog.pg_roles r WHERE r.rolname = $1::text`, name, service.GrantsReplication()).Scan(&r.MayLogIn, &r.MayReplicate, &r.MayConnect)
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
		err := q.QueryRow(ctx, `SELECT has_schema_privilege($1::text, n.oid, 'USAGE'), has_table_privilege($1::text, c.oid, 'SELECT')
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $2::text AND c.relname = $3::text`, name, t.Table.Schema, t.Table.Name).Scan(&use, &read)
		if err != nil {
			return r, fmt.Errorf("read the grants of role %q: %w", name, err)
		}
		r.Using[t.Table.Schema], r.Selecting[t.Table] = use, read
	}
	return r, nil
}

func readSetupState(ctx context.Context, q Querier, cfg AdminConfig) (setupState, error) {
	var st setupState
	var err error
	if st.Server, err = lookupServer(ctx, q); err != nil {
		return st, err
	}
	for _, t := range cfg.Tables {
		info, err := lookupTable(ctx, q, t)
		if err != nil {
			return st, err
		}
		st.Tables = append(st.Tables, info)
	}
	if st.Role, err = lookupRole(ctx, q, cfg.Role, st.Server.Service, st.Tables); err != nil {
		return st, err
	}
	if st.Memory, err = lookupMemory(ctx, q, cfg.Memory); err != nil {
		return st, err
	}
	if st.Memory.Exists && cfg.Role != "" && st.Role.Exists {
		err := q.QueryRow(ctx, `SELECT bool_and(has_table_privilege($1::text, $2::text, p)) FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p`,
			cfg.Role, cfg.Memory.SQL()).Scan(&st.Role.Remembering)
		if err != nil {
			return st, fmt.Errorf("read the grants of role %q: %w", cfg.Role, err)
		}
	}
	if st.Snapshot, err = lookupSnapshot(ctx, q, cfg.snapshotList()); err != nil {
		return st, err
	}
	if st.Publication, err = LookupPublication(ctx, q, cfg.Publication); err != nil {
		return st, err
	}
	st.Slot, err = LookupSlot(ctx, q, cfg.Slot)
	return st, err
}
