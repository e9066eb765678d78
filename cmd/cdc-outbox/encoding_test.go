package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// A database that is not in UTF-8: the server converts. In SQL_ASCII there is nothing to convert: what is valid UTF-8
// passes. At anything else, and at a byte that stands for no character, the server refuses to decode, and the connector
// ends with the LSN, the table and the way on. check warns of both.
//
// Bug (setup): A character that UTF-8 does not contain, or an invalid byte, was reported only in the server's words.
// Cost: exit 3 without a remedy.
func TestServerEncodings(t *testing.T) {
	t.Parallel()
	for _, version := range testkit.Versions(t, "14", "18") {
		for name, c := range map[string]struct{ server, client, bytes, want, code string }{
			"LATIN1":            {"LATIN1", "LATIN1", "Zo\xeb", "Zoë", ""},
			"WIN1252":           {"WIN1252", "WIN1252", "\x80 5", "€ 5", ""},
			"EUC_JP":            {"EUC_JP", "EUC_JP", "\xa4\xb3", "こ", ""},
			"SJIS client":       {"EUC_JP", "SJIS", "\x82\xb1", "こ", ""},
			"UTF-8 unconverted": {"SQL_ASCII", "SQL_ASCII", "Zoë", "Zoë", ""},
			"no UTF-8":          {"SQL_ASCII", "SQL_ASCII", "Zo\xeb", "", "22021"},
			"no character":      {"WIN1252", "WIN1252", "\x81", "", "22P05"},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				b := encodedBed(t, version, c.server)
				r := start(t, b.env)
				b.writeIn(c.client, "INSERT INTO outbox VALUES (1, 'orders', 'k', 'created', '"+c.bytes+"')")
				if c.code == "" {
					require.Equal(t, c.want, string(b.records("orders.events", 1)[0].Value))
					require.Equal(t, 0, r.stop(syscall.SIGTERM))
				} else {
					b.passOver(r, c.code)
				}
				check := invoke(t, b.env, "check")
				require.Contains(t, check.all(), c.server)
			})
		}
	}
}

// encodedBed is one with a database in another encoding.
func encodedBed(t *testing.T, version, encoding string) *bed {
	db := testkit.Postgres(t, version)
	name := db.Name + "_enc"
	require.NoError(t, db.Server.Exec(t.Context(), "postgres", fmt.Sprintf(`CREATE DATABASE %s ENCODING '%s' LC_COLLATE
		'C' LC_CTYPE 'C' TEMPLATE template0`, name, encoding)))
	t.Cleanup(func() { require.NoError(t, db.DropDatabase(context.Background(), name)) })
	other := *db
	other.Name, other.DSN = name, db.Server.DSN(name)
	b := newBed(t, &other, "orders.events")
	b.db.Exec(t, `CREATE TABLE outbox (id bigint PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
		event_type text NOT NULL, payload text, created_at timestamptz DEFAULT now())`)
	require.Equal(t, 0, invoke(t, b.env, "setup").code)
	return b
}

// writeIn sends a statement in the client's own encoding.
func (b *bed) writeIn(encoding, sql string) {
	conn, err := pgx.Connect(b.Context(), b.db.DSN+"&client_encoding="+encoding)
	require.NoError(b, err)
	defer conn.Close(context.Background())
	_, err = conn.PgConn().Exec(b.Context(), sql).ReadAll()
	require.NoError(b, err)
}

// passOver does what the error says.
func (b *bed) passOver(r *running, code string) {
	<-r.done
	require.Equal(b, 3, r.cmd.ProcessState.ExitCode())
	require.Contains(b, r.text(), "SQLSTATE "+code)
	require.Contains(b, r.text(), "table public.outbox")
	require.Regexp(b, `"at":"[0-9A-F]+/[0-9A-F]+"`, r.text())
	b.db.Exec(b.T, `UPDATE outbox SET payload = 'Zoe'`)
	conn, err := pgx.Connect(b.Context(), b.db.DSN)
	require.NoError(b, err)
	var lsn string
	require.NoError(b, conn.QueryRow(b.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&lsn))
	require.NoError(b, conn.Close(b.Context()))
	res := invoke(b.T, b.env, "slot", "advance", "--to", lsn, "--yes-lose-events")
	require.Equal(b, 0, res.code, res.all())
	again := start(b.T, b.env)
	again.awaitReady(http.StatusOK)
	res = invoke(b.T, b.env, "repair")
	require.Equal(b, 0, res.code, res.all())
	require.Equal(b, "Zoe", string(b.records("orders.events", 1)[0].Value), strings.TrimSpace(res.all()))
	require.Equal(b, 0, again.stop(syscall.SIGTERM))
}
