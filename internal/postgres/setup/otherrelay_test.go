package setup

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// TestVersionsOtherRelayIsNamed: another relay that reads the same publication through a slot of its own is named, by
// check and while the stream is open; one that reads another publication is not.
//
// Bug (setup): Two relays with the same publication and topics, and a slot each, were reported nowhere. Cost: each
// event twice and out of order, after a configuration was copied and the slot renamed.
func TestVersionsOtherRelayIsNamed(t *testing.T) {
	t.Parallel()
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	other := db.Slot + "_2"
	for _, publication := range []string{db.Publication, db.Publication + "_2"} {
		if publication != db.Publication {
			db.Exec(t, `CREATE PUBLICATION `+identifier.Quote(publication)+` FOR TABLE outbox`)
		}
		db.Exec(t, `SELECT pg_create_logical_replication_slot('`+other+`', 'pgoutput')`)
		cfg, err := pgconn.ParseConfig(db.DSN)
		require.NoError(t, err)
		cfg.RuntimeParams["replication"], cfg.RuntimeParams["application_name"] = "database", session.Application(other)
		conn, err := pgconn.ConnectConfig(t.Context(), cfg)
		require.NoError(t, err)
		conn.Frontend().SendQuery(&pgproto3.Query{String: `START_REPLICATION SLOT "` + other + `" LOGICAL 0/0
			(proto_version '1', publication_names ` + identifier.QuoteLiteral(identifier.Quote(publication)) + `)`})
		require.NoError(t, conn.Frontend().Flush())
		_, err = conn.ReceiveMessage(t.Context())
		require.NoError(t, err)
		running, err := CheckRunning(t.Context(), db.DSN, db.cfg, nil)
		require.NoError(t, err)
		check := about(Preflight(t.Context(), db.DSN, db.cfg), CodeOtherRelay)
		if publication == db.Publication {
			require.Contains(t, about(running.Harm, CodeOtherRelay).Found, other+" (pid ")
			require.Equal(t, preflight.Warn, check.Level)
		} else {
			require.Nil(t, about(running.Harm, CodeOtherRelay))
			require.Nil(t, check)
		}
		_ = conn.Conn().Close()
		require.Eventually(t, func() bool {
			_, err := db.conn.Exec(context.Background(), `SELECT pg_drop_replication_slot($1)`, other)
			return err == nil
		}, time.Minute, 50*time.Millisecond)
	}
}
