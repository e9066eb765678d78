package main

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// planted are functions and operators of a stranger: nearer by the path than the server's own, or with arguments that
// fit a call better. Each raises the counter of the sessions that ran it.
const planted = `
CREATE ROLE ROLE_NAME LOGIN SUPERUSER;
CREATE SCHEMA evil;
CREATE SEQUENCE evil.ran;
CREATE FUNCTION public.hashtextextended(text, int) RETURNS bigint LANGUAGE sql AS
	$$SELECT nextval('evil.ran'); SELECT 7::bigint$$;
CREATE FUNCTION public.pg_advisory_xact_lock(int) RETURNS void LANGUAGE sql AS $$SELECT nextval('evil.ran')$$;
CREATE FUNCTION public.pg_drop_replication_slot(text) RETURNS void LANGUAGE sql AS $$SELECT nextval('evil.ran')$$;
DO $$
DECLARE f record;
BEGIN
	FOR f IN SELECT p.oid, p.proname, pg_get_function_identity_arguments(p.oid) args,
		pg_get_function_result(p.oid) result,
		p.pronargs FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
		AND NOT p.proretset AND p.provariadic = 0 AND p.proname IN ('now', 'clock_timestamp', 'current_setting',
		'set_config', 'pg_current_wal_lsn', 'pg_current_wal_insert_lsn', 'pg_is_in_recovery', 'pg_backend_pid',
		'pg_has_role', 'has_table_privilege', 'to_jsonb', 'to_regclass', 'split_part', 'hashtextextended', 'hashtext',
		'pg_try_advisory_lock', 'pg_try_advisory_xact_lock', 'pg_advisory_unlock', 'pg_advisory_xact_lock',
		'pg_snapshot_xmin', 'pg_current_snapshot', 'pg_logical_emit_message', 'format_type', 'pg_get_expr', 'texteq',
		'obj_description', 'age', 'pg_control_system')
		AND NOT EXISTS (SELECT FROM unnest(p.proallargtypes) a)
	LOOP
		EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN
			PERFORM nextval(''evil.ran''); RAISE EXCEPTION ''planted %s ran''; END $f$', f.proname, f.args, f.result,
			f.proname);
	END LOOP;
END $$;
CREATE FUNCTION evil.eq(text, text) RETURNS boolean LANGUAGE sql AS
	$$SELECT nextval('evil.ran'); SELECT true$$;
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE OPERATOR evil.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE FUNCTION evil.eqn(name, text) RETURNS boolean LANGUAGE sql AS
	$$SELECT nextval('evil.ran'); SELECT true$$;
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = text, FUNCTION = evil.eqn);
CREATE FUNCTION evil.less(timestamptz, timestamptz) RETURNS boolean LANGUAGE sql AS
	$$SELECT nextval('evil.ran'); SELECT true$$;
CREATE OPERATOR evil.< (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = evil.less);
CREATE FUNCTION evil.times(interval, interval) RETURNS interval LANGUAGE sql AS
	$$SELECT nextval('evil.ran'); SELECT $2$$;
CREATE OPERATOR evil.* (LEFTARG = interval, RIGHTARG = interval, FUNCTION = evil.times);
CREATE FUNCTION evil.pg_try_advisory_xact_lock(text) RETURNS boolean LANGUAGE sql AS
	$$SELECT nextval('evil.ran'); SELECT true$$;
ALTER ROLE ROLE_NAME SET search_path = evil, pg_catalog, public;
ALTER ROLE ROLE_NAME SET synchronous_commit = off`

// TestPlantedFunctions: what another role has made in a schema of the search path runs in no session of this program,
// nor in a statement of inbox or outbox.
//
// Bug (setup): Functions and operators were found by the search path of the role or the database. Cost: on PostgreSQL
// 14, where each role may create functions in public, one that fits a call better than the server's own ran with the
// rights of the connector (CVE-2018-1058).
func TestPlantedFunctions(t *testing.T) {
	t.Parallel()
	for _, version := range testkit.Versions(t, "14", "18") {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			testPlantedFunctions(t, version)
		})
	}
}

func testPlantedFunctions(t *testing.T, version string) {
	db := testkit.Postgres(t, version)
	role := "planted_" + version
	db.Exec(t, strings.ReplaceAll(planted, "ROLE_NAME", role))
	t.Cleanup(func() {
		_ = db.Server.Exec(context.Background(), "postgres", "ALTER ROLE "+role+" RESET ALL")
	})
	dsn, err := url.Parse(db.DSN)
	require.NoError(t, err)
	dsn.User = url.User(role)
	db.DSN = dsn.String()
	ran := func() int64 {
		return number(t, db, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM evil.ran")
	}
	b := newBed(t, db, "order.events")
	good := func(args ...string) {
		t.Helper()
		r := invoke(t, b.env, args...)
		require.Equal(t, 0, r.code, "%q: %s", args, r.all())
		require.Zero(t, ran(), "%q", args)
	}
	good("setup", "--table")
	c := start(t, b.env)
	c.awaitReady(200)
	insert(t, db.DSN+"&search_path=evil,public") // the server's own come first, if they fit as well
	require.Len(t, b.records("order.events", 1), 1)
	require.Zero(t, ran(), "run, and outbox.Insert and inbox in the application's session")
	good("status")
	good("check")
	good("find", "--key", "1")
	good("prune", "--older-than=1h")
	good("repair", "--dry-run")
	good("replay", "--aggregate-type=order")
	good("monitor", "--once")
}

// insert uses outbox and inbox as an application does, in sessions with the role's search path.
func insert(t *testing.T, dsn string) {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	application, err := outbox.New(outbox.Options{Schema: "public"})
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		return application.Insert(ctx, tx,
			outbox.Event{AggregateType: "order", AggregateID: "1", Type: "Placed", Payload: 1})
	}))
	opts := inbox.Options{Consumer: "c", Strategy: inbox.Advisory, Schema: "public"}
	ddl, err := inbox.Schema(opts)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "SET search_path = public; "+ddl+"; RESET search_path")
	require.NoError(t, err)
	pool, err := pgxpool.New(ctx, dsn)
	require.NoError(t, err)
	defer pool.Close()
	in, err := inbox.New(pool, opts)
	require.NoError(t, err)
	handle := func(context.Context, pgx.Tx) error { return nil }
	require.NoError(t, in.Handle(ctx, inbox.Event{ID: "1"}, handle))
	require.ErrorIs(t, in.Handle(ctx, inbox.Event{ID: "1"}, handle), inbox.ErrDuplicate)
	_, err = in.Prune(ctx, 24*time.Hour)
	require.NoError(t, err)
}
