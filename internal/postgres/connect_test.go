package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestConnectTakesWhatPsqlTakes: a server refuses libpq's own parameters if it gets them as settings.
func TestConnectTakesWhatPsqlTakes(t *testing.T) {
	db := testkit.Postgres(t)
	conn, err := Connect(t.Context(), db.DSN+"&hostaddr=127.0.0.1&gssencmode=prefer&sslcompression=0&keepalives=1"+
		"&keepalives_idle=30&load_balance_hosts=random&ssl_min_protocol_version=TLSv1.2", "cdc-outbox test")
	require.NoError(t, err)
	CloseConn(conn)
	_, err = Connect(t.Context(), db.DSN+"&channel_binding=require", "cdc-outbox test")
	require.ErrorContains(t, err, "channel_binding=require in postgres.dsn needs TLS and a login by SCRAM")
}
