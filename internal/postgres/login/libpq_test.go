package login

import (
	"crypto/tls"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func parsed(t *testing.T, dsn string) *pgconn.Config {
	t.Helper()
	pc, err := pgconn.ParseConfig(dsn)
	require.NoError(t, err)
	return pc
}

// TestLibpqParameters: none of them reaches the server, which would refuse the connection, and what remains is what the
// DSN says beside them.
//
// Bug (setup): libpq's gssencmode, hostaddr, keepalives and load_balance_hosts were sent to the server as settings.
// Cost: a connection string that psql takes was refused as "unrecognized configuration parameter".
func TestLibpqParameters(t *testing.T) {
	for _, parameters := range []string{
		"gssencmode=disable", "gssencmode=prefer", "gsslib=gssapi", "gssdelegation=0", "sslcompression=0",
		"sslkeylogfile=''", "hostaddr=10.0.0.1", "load_balance_hosts=disable", "load_balance_hosts=random",
		"keepalives=0", "keepalives=1 keepalives_idle=30 keepalives_interval=5 keepalives_count=3",
		"ssl_min_protocol_version=TLSv1.2 ssl_max_protocol_version=TLSv1.3", "requirepeer=''",
	} {
		pc := parsed(t, "host=db.internal user=relay dbname=shop work_mem=4MB "+parameters)
		require.NoError(t, Libpq(pc), parameters)
		require.Equal(t, map[string]string{"work_mem": "4MB"}, pc.RuntimeParams, parameters)
	}
}

// TestLibpqParametersThatAreRefused: a promise that is not kept, and a value that means nothing. No value is quoted.
func TestLibpqParametersThatAreRefused(t *testing.T) {
	for parameters, want := range map[string]string{
		"gssencmode=require":                    "gssencmode is not supported, except for disable and prefer",
		"requirepeer=postgres":                  "requirepeer is not supported",
		"sslcrl=/etc/crl.pem":                   "sslcrl is not supported",
		"scram_client_key=secret":               "scram_client_key is not supported",
		"oauth_issuer=https://idp":              "oauth_issuer is not supported",
		"hostaddr=db.internal":                  "hostaddr is not a list of IP addresses",
		"hostaddr=10.0.0.1,10.0.0.2":            "hostaddr has 2 addresses for 1 hosts",
		"load_balance_hosts=yes":                "load_balance_hosts is neither disable nor random",
		"ssl_min_protocol_version=secret":       "ssl_min_protocol_version is none of tlsv1, tlsv1.1, tlsv1.2, tlsv1.3",
		"keepalives_idle=secret":                "keepalives_idle is not a number",
		"keepalives_count=-1":                   "keepalives_count is not a number",
		"keepalives_interval=99999999999999999": "keepalives_interval is not a number",
	} {
		require.EqualError(t, Libpq(parsed(t, "host=db.internal "+parameters)), want, parameters)
	}
	require.EqualError(t, Libpq(parsed(t, "host=/tmp hostaddr=10.0.0.1 sslmode=require")),
		"hostaddr needs host, the name for TLS, beside it", "a socket has no TLS, so this would be in the clear")
}

func TestLibpqHostAddresses(t *testing.T) {
	pc := parsed(t, "host=a,b,c hostaddr=10.0.0.1,,10.0.0.3 sslmode=verify-full")
	pc.LookupFunc = nil
	require.NoError(t, Libpq(pc))
	for host, want := range map[string]string{"a": "10.0.0.1", "c": "10.0.0.3"} {
		got, err := pc.LookupFunc(t.Context(), host)
		require.NoError(t, err)
		require.Equal(t, []string{want}, got)
	}
	require.Equal(t, "a", pc.TLSConfig.ServerName)
}

// TestLibpqBalance: each host is the first one now and then, with its own port and the two attempts of sslmode=prefer.
func TestLibpqBalance(t *testing.T) {
	first := map[string]bool{}
	for range 200 {
		pc := parsed(t, "host=a,b,c port=1,2,3 sslmode=prefer load_balance_hosts=random")
		require.NoError(t, Libpq(pc))
		first[pc.Host] = true
		var ports []uint16
		for i, f := range append([]*pgconn.FallbackConfig{{Host: pc.Host, Port: pc.Port, TLSConfig: pc.TLSConfig}},
			pc.Fallbacks...) {
			require.EqualValues(t, f.Host[0]-'a'+1, f.Port)
			require.Equal(t, i%2 == 0, f.TLSConfig != nil)
			ports = append(ports, f.Port)
		}
		slices.Sort(ports)
		require.Equal(t, []uint16{1, 1, 2, 2, 3, 3}, ports)
	}
	require.Len(t, first, 3)
}

func TestLibpqProtocols(t *testing.T) {
	pc := parsed(t, "host=a,b sslmode=prefer ssl_min_protocol_version=TLSv1.3")
	require.NoError(t, Libpq(pc))
	require.EqualValues(t, tls.VersionTLS13, pc.TLSConfig.MinVersion)
	require.EqualValues(t, tls.VersionTLS13, pc.Fallbacks[1].TLSConfig.MinVersion)
}

func TestLibpqNames(t *testing.T) {
	for parameters, want := range map[string]string{
		"fallback_application_name=b":                    "b",
		"fallback_application_name=b application_name=a": "a",
	} {
		pc := parsed(t, "host=a "+parameters)
		require.NoError(t, Libpq(pc))
		require.Equal(t, map[string]string{"application_name": want}, pc.RuntimeParams)
	}
}
