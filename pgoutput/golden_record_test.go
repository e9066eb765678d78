package pgoutput

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

var update = flag.Bool("update", false, "record testdata/pgoutput again from real servers")

// scenario is SQL whose stream is recorded. Each step is a statement on session "a", or on "b" where it begins so.
type scenario struct {
	name    string
	version string // of Postgres; default the newest installed
	setup   string // before the slot exists
	steps   []string
	options []string // more pgoutput options
}

const goldenTable = `CREATE TABLE outbox (id bigint PRIMARY KEY, body text)`

var scenarios = []scenario{
	{name: "insert", setup: goldenTable, steps: []string{`INSERT INTO outbox VALUES (1, 'hello')`}},
	{
		name: "types",
		setup: `CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE outbox (id uuid PRIMARY KEY,
			aggregate_type text NOT NULL,
		aggregate_id varchar(40), n numeric(10,2), f float8, ok boolean, at timestamptz, ts timestamp, span interval,
			doc jsonb, raw_doc json, bin bytea, list int[], m mood, empty text, absent text)`,
		steps: []string{`INSERT INTO outbox VALUES ('5c2a4b1e-0000-4000-8000-000000000001', 'order', '42', 1.50, 0.1,
			true, '2024-02-29 12:00:00.123456+02', '1999-12-31 23:59:59',
			'1 day 02:03:04', '{"b": 1.50, "a": "ü"}', '{"b":1,  "a":2}', '\xdeadbeef00', '{1,NULL,3}', 'glad', '',
				NULL)`},
	},
	{name: "savepoint_rollback", setup: goldenTable, steps: []string{
		`BEGIN`, `INSERT INTO outbox VALUES (1, 'kept')`, `SAVEPOINT s`,
		`INSERT INTO outbox VALUES (2, 'rolled back')`, `ROLLBACK TO s`, `INSERT INTO outbox VALUES (3, 'kept')`,
		`COMMIT`, `BEGIN`, `INSERT INTO outbox VALUES (4, 'rolled back')`, `ROLLBACK`,
	}},
	{
		name: "back_to_back_commits", setup: goldenTable,
		steps: []string{
			`INSERT INTO outbox VALUES (1, 'a')`, `INSERT INTO outbox VALUES (2, 'b')`,
			`INSERT INTO outbox VALUES (3, 'c')`,
		},
	},
	{name: "interleaved", setup: goldenTable, steps: []string{
		`BEGIN`, `INSERT INTO outbox VALUES (1, 'a, first written')`, `b: BEGIN`,
		`b: INSERT INTO outbox VALUES (2, 'b, first committed')`, `INSERT INTO outbox VALUES (3, 'a')`, `b: COMMIT`,
		`COMMIT`,
	}},
	{name: "two_phase", setup: goldenTable, steps: []string{
		`BEGIN`, `INSERT INTO outbox VALUES (1, 'prepared')`, `PREPARE TRANSACTION 'golden_1'`,
		`BEGIN`, `INSERT INTO outbox VALUES (2, 'rolled back')`, `PREPARE TRANSACTION 'golden_2'`,
		`INSERT INTO outbox VALUES (3, 'in between')`, `COMMIT PREPARED 'golden_1'`, `ROLLBACK PREPARED 'golden_2'`,
	}},
	{
		name: "truncate", setup: goldenTable + `; CREATE TABLE more (id int REFERENCES outbox)`,
		steps: []string{`INSERT INTO outbox VALUES (1, 'a')`, `TRUNCATE outbox, more RESTART IDENTITY`},
	},
	{
		name: "update_delete",
		setup: goldenTable +
			`; CREATE TABLE full_identity (id int, body text); ALTER TABLE full_identity REPLICA IDENTITY FULL`,
		steps: []string{
			`INSERT INTO outbox VALUES (1, 'a')`, `UPDATE outbox SET body = 'b'`, `UPDATE outbox SET id = 2`,
			`DELETE FROM outbox`, `INSERT INTO full_identity VALUES (1, 'a')`, `UPDATE full_identity SET body = NULL`,
			`DELETE FROM full_identity`,
		},
	},
	{name: "columns_change", setup: goldenTable, steps: []string{
		`INSERT INTO outbox VALUES (1, 'a')`, `ALTER TABLE outbox ADD COLUMN extra int DEFAULT 7`,
		`INSERT INTO outbox VALUES (2, 'b')`, `ALTER TABLE outbox RENAME COLUMN body TO payload`,
		`INSERT INTO outbox VALUES (3, 'c')`, `ALTER TABLE outbox DROP COLUMN payload`, `INSERT INTO outbox VALUES (4)`,
		`BEGIN`, `INSERT INTO outbox VALUES (5)`, `ALTER TABLE outbox ADD COLUMN late text`,
		`INSERT INTO outbox VALUES (6, 6, 'same transaction')`, `COMMIT`,
	}},
	{
		name: "toast", setup: goldenTable + `; ALTER TABLE outbox ALTER body SET STORAGE EXTERNAL, ADD n int`,
		steps: []string{`INSERT INTO outbox VALUES (1, repeat('0123456789', 1000), 1)`, `UPDATE outbox SET n = 2`},
	},
	{
		name: "empty_transactions_14", version: "14", setup: goldenTable + `; CREATE TABLE other (x int)`,
		steps: []string{
			`INSERT INTO other VALUES (1)`, `INSERT INTO outbox VALUES (1, 'a')`, `INSERT INTO other VALUES (2)`,
		},
	},
	{
		name: "empty_transactions", setup: goldenTable + `; CREATE TABLE other (x int)`,
		steps: []string{
			`INSERT INTO other VALUES (1)`, `INSERT INTO outbox VALUES (1, 'a')`, `INSERT INTO other VALUES (2)`,
		},
	},
	{name: "logical_message", options: []string{"messages 'true'"}, setup: goldenTable, steps: []string{
		`BEGIN`, `INSERT INTO outbox VALUES (1, 'a')`,
		`SELECT pg_logical_emit_message(true, 'orders', 'in a transaction')`, `COMMIT`,
		`SELECT pg_logical_emit_message(false, 'orders', 'outside')`, `SELECT pg_logical_emit_message(true, '', '')`,
	}},
	{name: "origin", setup: goldenTable + `; SELECT pg_replication_origin_create('golden "origin"')`, steps: []string{
		`SELECT pg_replication_origin_session_setup('golden "origin"')`,
		`INSERT INTO outbox VALUES (1, 'a')`, `SELECT pg_replication_origin_session_reset()`,
		`SELECT pg_replication_origin_drop('golden "origin"')`,
	}},
	{
		name: "quoted_names",
		setup: `CREATE SCHEMA "My ""Schema"""; CREATE TABLE "My ""Schema"""."Out.Box ü" ("Id" int PRIMARY KEY,
			"pay""load" text, "select" text)`,
		steps: []string{`INSERT INTO "My ""Schema"""."Out.Box ü" VALUES (1, 'a', 'b')`},
	},
	{
		name: "partitioned",
		setup: `CREATE TABLE outbox (id bigint, body text, PRIMARY KEY (id)) PARTITION BY RANGE (id); CREATE TABLE
			outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (10);
		CREATE TABLE outbox_2 (body text, id bigint PRIMARY KEY); ALTER TABLE outbox ATTACH PARTITION outbox_2 FOR
			VALUES FROM (10) TO (20)`,
		steps: []string{`INSERT INTO outbox VALUES (1, 'a'), (11, 'b')`},
	},
}

func TestGoldenRecord(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	require.NoError(t, os.MkdirAll(goldenDir, 0o755))
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			raw := sc.record(t)
			require.NotEmpty(t, raw)
			require.NoError(t, os.WriteFile(filepath.Join(goldenDir, sc.name+".bin"), raw, 0o644))
			text := describe(t, goldenMessages(t, sc.name))
			require.NoError(t, os.WriteFile(filepath.Join(goldenDir, sc.name+".txt"), []byte(text), 0o644))
		})
	}
}

// record runs the scenario and returns the XLogData messages a walsender sends for it. It reads them by pgconn, not
// by the code under test.
func (sc scenario) record(t *testing.T) []byte {
	db := testkit.Postgres(t, sc.version)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db.Exec(t, sc.setup)
	tables := "ALL TABLES"
	if strings.HasPrefix(sc.name, "empty") {
		tables = "TABLE outbox"
	}
	options := " WITH (publish_via_partition_root = true)"
	db.Exec(t, `CREATE PUBLICATION golden FOR `+tables+options)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	end := sc.run(ctx, t, db)

	conn, err := pgconn.Connect(ctx, db.DSN+"&replication=database")
	if err != nil {
		conn, err = pgconn.Connect(ctx, db.DSN+"?replication=database")
	}
	require.NoError(t, err)
	defer conn.Close(ctx)
	require.NoError(t, pglogrepl.StartReplication(ctx, conn, db.Slot, 0, pglogrepl.StartReplicationOptions{
		Mode:       pglogrepl.LogicalReplication,
		PluginArgs: append([]string{"proto_version '1'", "publication_names 'golden'"}, sc.options...),
	}))
	var raw []byte
	for {
		msg, err := conn.ReceiveMessage(ctx)
		require.NoError(t, err)
		data, ok := msg.(*pgproto3.CopyData)
		require.True(t, ok, "%T", msg)
		if data.Data[0] == 'k' {
			keepalive, err := pglogrepl.ParsePrimaryKeepaliveMessage(data.Data[1:])
			require.NoError(t, err)
			if lsn.LSN(keepalive.ServerWALEnd) >= end {
				return raw
			}
			continue
		}
		raw, err = data.Encode(raw)
		require.NoError(t, err)
	}
}

// run executes the steps and returns the position after them.
func (sc scenario) run(ctx context.Context, t *testing.T, db *testkit.Database) lsn.LSN {
	sessions := map[string]*pgx.Conn{}
	for _, name := range []string{"a", "b"} {
		conn, err := db.Connect(ctx, db.Name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		sessions[name] = conn
	}
	for _, step := range sc.steps {
		session, sql := "a", step
		if rest, ok := strings.CutPrefix(step, "b: "); ok {
			session, sql = "b", rest
		}
		_, err := sessions[session].Exec(ctx, sql)
		require.NoError(t, err, step)
	}
	var text string
	require.NoError(t, sessions["a"].QueryRow(ctx, `SELECT pg_current_wal_flush_lsn()::text`).Scan(&text))
	end, err := lsn.Parse(text)
	require.NoError(t, err)
	return end
}
