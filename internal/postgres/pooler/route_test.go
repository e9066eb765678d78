package pooler

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
)

// What PgBouncer and RDS Proxy answer.
func refusalOfParameter(name string) *pgconn.PgError {
	return &pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name}
}

func TestWays(t *testing.T) {
	direct := Route{
		Host: "db", Port: 5432, User: "u", KeyPID: 7, BackendPID: 7, ServerAddr: "10.0.0.5", ServerPort: 5432,
		Tried: true,
	}
	for name, c := range map[string]struct {
		change func(*Route)
		level  preflight.Level // empty: nothing is said
		code   string
		found  string
		remedy string
	}{
		"direct":                  {change: func(*Route) {}},
		"NAT or a TCP proxy":      {change: func(w *Route) { w.Forwarded = true }},
		"SQL could not be asked":  {change: func(w *Route) { w.KeyPID, w.BackendPID = 7, 0 }},
		"nothing tried, same pid": {change: func(w *Route) { w.Tried = false }},
		"right to replicate missing": {change: func(w *Route) {
			w.Refusal = &pgconn.PgError{Code: "42501", Message: "must be superuser"}
		}},
		"every sender taken": {change: func(w *Route) {
			w.Refusal = &pgconn.PgError{Code: "53300", Message: "number of requested standby connections"}
		}},
		"a pooler's name proves nothing": {change: func(w *Route) {
			w.Host = "aws-0-eu-central-1.pooler.supabase.com"
		}},
		"its port neither": {change: func(w *Route) { w.Port = 6432 }},
		"the server says no": {
			func(w *Route) { w.Refusal = &pgconn.PgError{Code: "28000", Message: "no pg_hba.conf entry"} },
			preflight.Fail, "replication_connection", "no pg_hba.conf entry (SQLSTATE 28000).", "pg_hba.conf",
		},
		"unknown": {
			func(w *Route) { w.KeyPID = 900 }, preflight.Warn, "unknown_proxy",
			"Something between us and the server answers with another backend pid: 900 at the login, 7 by " +
				"pg_backend_pid().", "reaches it at 10.0.0.5:5432",
		},
		"unknown, no key at all": {func(w *Route) {
			w.KeyPID = 0
		}, preflight.Warn, "unknown_proxy", "another backend pid", "10.0.0.5:5432"},
		"unknown, and right missing": {
			func(w *Route) { w.KeyPID, w.Refusal = 900, &pgconn.PgError{Code: "42501"} },
			preflight.Warn, "unknown_proxy", "another backend pid", "10.0.0.5:5432",
		},
		"a service's own proxy": {func(w *Route) {
			w.KeyPID, w.Transit = 900, true
		}, preflight.OK, "", "lets the replication connection pass", ""},
		"refused": {
			func(w *Route) { w.KeyPID, w.Refusal = 900, refusalOfParameter("replication") },
			preflight.Fail, "pooler", "something that is not Postgres: a pooler or a proxy, which does not let the " +
				"replication connection pass: unsupported startup parameter: replication.", "10.0.0.5:5432",
		},
		"refused, named": {
			func(w *Route) {
				w.Product, w.Behind, w.Refusal = "PgBouncer 1.24.1", "pg-1:5433", refusalOfParameter("bytea_output")
			},
			preflight.Fail, "pooler", "It leads to PgBouncer 1.24.1,", "pg-1:5433",
		},
		"refused, but for the settings": {
			func(w *Route) { w.KeyPID, w.Bare, w.Refusal = 900, true, refusalOfParameter("bytea_output") },
			preflight.Fail, "pooler", "but not with the settings that decide how values are written.", "10.0.0.5:5432",
		},
		"before anything else": {
			func(w *Route) { *w = Route{Host: "db", Port: 6432, Refusal: refusalOfParameter("options")} },
			preflight.Fail, "pooler", "unsupported startup parameter: options", "its configuration names",
		},
		"over a socket": {func(w *Route) {
			w.ServerAddr, w.Refusal = "", refusalOfParameter("replication")
		}, preflight.Fail, "pooler", "", "on the machine of what is in between, port 5432"},
		"settings dropped": {
			func(w *Route) { w.KeyPID, w.Lost = 900, []string{"bytea_output", "extra_float_digits"} },
			preflight.Fail, "pooler_settings", "drops settings of the session: bytea_output, extra_float_digits",
			"10.0.0.5",
		},
		"ordinary": {func(w *Route) {
			w.Host, w.Port, w.User, w.KeyPID, w.Ordinary = "aws-0-eu-central-1.pooler.supabase.com", 5432, "cdc.abcdef",
				900, true
		}, preflight.Fail, "pooler", "Supavisor", "db.abcdef.supabase.co:5432, user cdc"},
		"ordinary, a user that is not a word": {func(w *Route) {
			w.Host, w.User, w.Ordinary = "aws-0-eu-central-1.pooler.supabase.com", "cdc.x'; rm -rf", true
		}, preflight.Fail, "pooler", "Supavisor", "db.PROJECT.supabase.co:5432"},
		"Neon": {
			func(w *Route) {
				w.Host, w.KeyPID, w.Refusal = "ep-a-1-pooler.eu-central-1.aws.neon.tech", 900,
					refusalOfParameter("replication")
			},
			preflight.Fail, "pooler", "Neon's pooler", "ep-a-1.eu-central-1.aws.neon.tech:5432",
		},
		"Neon, letting it pass": {
			func(w *Route) { w.Host, w.KeyPID = "ep-a-1-pooler.eu-central-1.aws.neon.tech", 900 },
			preflight.Warn, "pooler_passes", "Neon's pooler", "ep-a-1.eu-central-1.aws.neon.tech:5432",
		},
		"Azure": {
			func(w *Route) {
				w.Host, w.Port, w.Refusal = "shop.postgres.database.azure.com", 6432, refusalOfParameter("replication")
			},
			preflight.Fail, "pooler", "Azure's built-in PgBouncer", "shop.postgres.database.azure.com:5432",
		},
		"RDS Proxy": {func(w *Route) {
			w.Refusal = &pgconn.PgError{
				Code: "0A000", Message: "Feature not supported: RDS Proxy currently doesn't support streaming " +
					"replication mode",
			}
		}, preflight.Fail, "pooler", "Amazon RDS Proxy", "aws rds describe-db-instances"},
		"login refused": {func(w *Route) {
			*w = Route{
				Host: "db", Port: 6432, Refusal: &pgconn.PgError{
					Code: "08P01", Message: "password authentication failed",
				},
			}
		}, preflight.Fail, "pooler", "PgBouncer or a pooler like it, which refuses the login: password " +
			"authentication failed.", "its configuration names"},
		"Pgpool": {func(w *Route) {
			w.Forwarded, w.Product = true, "Pgpool-II 4.3.5"
		}, preflight.Fail, "pooler", "Pgpool-II 4.3.5", "10.0.0.5:5432"},
		"lent out": {func(w *Route) {
			w.KeyPID, w.Shared = 900, true
		}, preflight.Fail, "pooler", "two of ours had the same backend", "10.0.0.5:5432"},
		"lets it pass": {func(w *Route) {
			w.KeyPID, w.Product = 900, "Odyssey 1.4"
		}, preflight.Warn, "pooler_passes", "Odyssey 1.4", "10.0.0.5:5432"},
	} {
		w := direct
		c.change(&w)
		findings := w.findings()
		if c.level == "" {
			require.Empty(t, findings, name)
			continue
		}
		require.Len(t, findings, 1, name)
		f := findings[0]
		require.Equal(t, c.level, f.Level, name)
		require.Equal(t, c.code, f.Code, name)
		require.Contains(t, f.Found, c.found, name)
		require.Contains(t, f.ToDo().String(), c.remedy, name)
		require.Equal(t, c.level != preflight.OK, f.Why != "", name)
	}
}

// TestAServicesOwnProxy: Neon's direct address answers with pids of its proxy's, too.
func TestAServicesOwnProxy(t *testing.T) {
	w := Route{Host: "ep-a-1.eu-central-1.aws.neon.tech", Port: 5432, KeyPID: 9, BackendPID: 7, Tried: true}
	judge := func(w Route, s cloud.Service) preflight.Finding { return Findings(OnService([]Route{w}, s))[0] }
	require.Equal(t, preflight.OK, judge(w, cloud.Neon).Level)
	require.Equal(t, "unknown_proxy", judge(w, cloud.Plain).Code)
	require.Equal(t, "unknown_proxy", judge(w, cloud.RDS).Code)
	w.Host = "ep-a-1-pooler.eu-central-1.aws.neon.tech"
	require.Equal(t, "pooler_passes", judge(w, cloud.Neon).Code)
	w.Lost = []string{"bytea_output"}
	require.Equal(t, preflight.Fail, judge(w, cloud.Neon).Level)
}

// TestConsolesAreNotBelieved: what a console says goes into a remedy that people paste.
func TestConsolesAreNotBelieved(t *testing.T) {
	require.Equal(t, "PgBouncer 1.24.1", named(pgBouncer, " 1.24.1\x1b[2J; DROP"))
	require.Equal(t, "Pgpool-II 4.3.5", named(pgpool, "4.3.5 (tamahomeboshi)"))
	require.Equal(t, "PgCat", named(pgCat, "\nDROP TABLE outbox"))
	require.LessOrEqual(t, len(named(odyssey, strings.Repeat("1.", 1000))), 30)
}

// TestPoolerLogin: PgBouncer's words for a refused login, and what a server says.
//
// Bug (poolers): A login that PgBouncer refused, which has a code of its own for a wrong password, was retried forever.
// Cost: a connector that waits for nothing.
func TestPoolerLogin(t *testing.T) {
	for _, words := range []string{
		"password authentication failed", "SASL authentication failed", "no such user: app", "no such database: nodb",
		`role "app" does not exist`, "not allowed",
	} {
		require.True(t, RefusesLogin(&pgconn.PgError{Code: "08P01", Message: words}), words)
	}
	for _, e := range []pgconn.PgError{
		{Code: "28P01", Message: `password authentication failed for user "app"`},
		{Code: "3D000", Message: `database "nodb" does not exist`},
		{Code: "08P01", Message: "invalid startup packet layout: expected terminator as last byte"},
		{Code: "08P01", Message: "expected password response, got message type 0"},
	} {
		require.False(t, RefusesLogin(&e), e.Message)
		require.False(t, RefusesParameters(&e), e.Message)
	}
}

func TestSeveralHostsAreNamedTogether(t *testing.T) {
	pc, err := pgx.ParseConfig("postgres://u:s3cret-canary@a:1,b:2/x?sslmode=prefer")
	require.NoError(t, err)
	require.Len(t, eachHost(&pc.Config), 2, "once with TLS, once without, is one host")
	var f *fault.Error
	require.ErrorAs(t, Route{Refusal: refusalOfParameter("replication")}.ToHostOf(&pc.Config).Fault(), &f)
	require.Equal(t, "way to one of a:1, b:2", f.Object)
}
