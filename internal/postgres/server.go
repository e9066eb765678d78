package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
)

// ServerFacts are what slots and publications are judged by.
type ServerFacts struct {
	Version     int    `json:"version"` // server_version_num; 0: not asked
	VersionText string `json:"version_text"`
	Database    string `json:"database"`
	InRecovery  bool   `json:"in_recovery"`
	// of a standby: host and port of what it follows; empty where the role may not see it
	Upstream string `json:"upstream"`
}

// PrimaryName is the primary as the standby's WAL receiver knows it.
func (f ServerFacts) PrimaryName() string {
	if f.Upstream == "" {
		return "the primary"
	}
	return "the primary (" + f.Upstream + ")"
}

// Server is the server, the connected database and the connected role.
type Server struct {
	ServerFacts
	User          string `json:"user"`
	Encoding      string `json:"encoding"`
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
	SyncNames     string `json:"sync_names"`       // synchronous_standby_names
	// functions that emit logical messages and that every role may call, with their arguments
	PublicEmitters []string `json:"public_emitters"`

	Service cloud.Service `json:"-"`
}

// WALLevelSQL is the expression for a server's WAL level. From PostgreSQL 19 on, effective_wal_level is what it is in
// fact: logical while there is a slot for logical decoding, also where wal_level is replica.
const WALLevelSQL = `coalesce(current_setting('effective_wal_level', true), current_setting('wal_level'))`

// Decodes reports whether a slot for logical decoding can be created on a primary with this WAL level. From PostgreSQL
// 19 on, the first such slot raises the level from replica to logical.
func Decodes(walLevel string, version int) bool {
	return walLevel == "logical" || walLevel == "replica" && version >= 190000
}

const serverSQL = `
SELECT jsonb_build_object(
  'version', current_setting('server_version_num')::int, 'version_text', current_setting('server_version'),
  'database', current_database(), 'user', current_user, 'encoding', current_setting('server_encoding'),
  'in_recovery', pg_is_in_recovery(), 'wal_level', ` + WALLevelSQL + `,
  'may_replicate', r.rolsuper OR r.rolreplication,
  'rds_member', EXISTS (SELECT FROM pg_catalog.pg_roles g WHERE g.rolname = 'rds_replication'
    AND pg_has_role(g.oid, 'MEMBER')),
  'may_create', has_database_privilege(current_database(), 'CREATE'),
  'may_see_others', pg_has_role('pg_read_all_stats', 'USAGE'),
  'max_slots', current_setting('max_replication_slots')::int,
  'used_slots', (SELECT count(*) FROM pg_catalog.pg_replication_slots),
  'max_senders', current_setting('max_wal_senders')::int,
  'used_senders', (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'walsender'),
  'feedback', current_setting('hot_standby_feedback')::bool, 'primary_slot', current_setting('primary_slot_name'),
  'sync_names', current_setting('synchronous_standby_names'),
  'public_emitters', (SELECT jsonb_agg(p.oid::regprocedure::text ORDER BY p.oid) FROM pg_catalog.pg_proc p
    WHERE p.proname = 'pg_logical_emit_message' AND p.pronamespace = 'pg_catalog'::regnamespace
      AND (p.proacl IS NULL OR EXISTS (SELECT FROM pg_catalog.aclexplode(p.proacl) a
        WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE'))),
  'upstream', (SELECT sender_host || ':' || sender_port FROM pg_catalog.pg_stat_wal_receiver),
  'slot_wal_keep_mb', (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size'),
  'sender_timeout', (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'),
  'idle_timeout', (SELECT extract(epoch FROM (setting || coalesce(unit, 's'))::interval)::bigint
                     FROM pg_catalog.pg_settings WHERE name = 'idle_replication_slot_timeout'))::text
  FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`

// LookupServer reads the server, the connected database and the connected role.
func LookupServer(ctx context.Context, q Querier) (Server, error) {
	var row []byte
	if err := q.QueryRow(ctx, serverSQL).Scan(&row); err != nil {
		return Server{}, fmt.Errorf("read the server's settings: %w", err)
	}
	var s Server
	err := json.Unmarshal(row, &s)
	if err != nil {
		return Server{}, fmt.Errorf("read the server's settings: %w", err)
	}
	if s.Service, err = LookupService(ctx, q); err != nil {
		return Server{}, err
	}
	s.MayReplicate = s.MayReplicate || s.RDSMember && s.Service.GrantsReplication()
	return s, nil
}

// LookupService reads which managed service the server belongs to.
func LookupService(ctx context.Context, q Querier) (cloud.Service, error) {
	facts, err := lookupServiceFacts(ctx, q)
	return cloud.Recognise(facts), err
}

// lookupServiceFacts reads what identifies a managed service. pg_settings leaves out what the role may not see, where
// current_setting() would fail; it also leaves out settings that no loaded library has claimed.
func lookupServiceFacts(ctx context.Context, q Querier) (cloud.Facts, error) {
	var f cloud.Facts
	err := q.QueryRow(ctx, `
		SELECT ARRAY(SELECT name::text FROM pg_catalog.pg_settings WHERE name = ANY($1::text[])),
		       ARRAY(SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname = ANY($2::text[])),
		       coalesce((SELECT rolname::text FROM pg_catalog.pg_roles WHERE oid = 10), ''),
		       EXISTS (SELECT FROM pg_catalog.pg_proc WHERE proname = 'aurora_version')`,
		cloud.MarkerSettings(), cloud.MarkerRoles()).Scan(&f.Settings, &f.Roles, &f.Bootstrap, &f.Aurora)
	if err != nil {
		return f, fmt.Errorf("read what identifies a managed service: %w", err)
	}
	if len(f.Settings) > 0 {
		return f, nil
	}
	var unclaimed []string
	err = q.QueryRow(ctx,
		`SELECT ARRAY(SELECT name FROM unnest($1::text[]) name WHERE current_setting(name, true) IS NOT NULL)`,
		cloud.MarkerSettings()).Scan(&unclaimed)
	if err == nil { // otherwise one of them is hidden from this role
		f.Settings = unclaimed
	}
	return f, nil
}
