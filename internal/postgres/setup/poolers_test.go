package setup

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/pooler"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
	"github.com/stretchr/testify/require"
)

// through is the DSN with another address.
func through(t *testing.T, dsn, addr string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.Host = addr
	if _, ok := u.User.Password(); !ok {
		u.User = url.UserPassword(u.User.Username(), "s3cret-canary")
	}
	return u.String()
}

// ofTheWay returns the findings about the way, and looks for the password in all of them.
func ofTheWay(t *testing.T, findings []preflight.Finding) (out []preflight.Finding) {
	t.Helper()
	for _, f := range findings {
		require.NotContains(t, f.Subject+f.Found+f.Why+f.ToDo().String(), "s3cret-canary")
		if strings.HasPrefix(f.Subject, "way to ") {
			out = append(out, f)
		}
	}
	return out
}

// requirePooler: check, setup and the stream itself say what check says, and nothing was made.
func requirePooler(t *testing.T, db *adminDB, addr, code string, words ...string) {
	t.Helper()
	dsn := through(t, db.DSN, addr)
	findings := ofTheWay(t, Preflight(t.Context(), dsn, db.cfg))
	require.Len(t, findings, 1)
	require.Equal(t, preflight.Fail, findings[0].Level)
	require.Equal(t, code, findings[0].Code)
	for _, w := range append(words, addr) {
		require.Contains(t, findings[0].Subject+findings[0].Found+findings[0].ToDo().String(), w)
	}
	err := Ensure(t.Context(), dsn, db.cfg, true)
	requireOperator(t, err, "way to "+addr, "let postgres.dsn lead to the server itself")
	require.NotContains(t, err.Error(), "s3cret-canary")
	slot, err := postgres.LookupSlot(t.Context(), db.conn, db.Slot)
	require.NoError(t, err)
	require.False(t, slot.Exists, "a slot that cannot be read must not be created")
	config := replication.Config{DSN: func() (string, error) {
		return dsn, nil
	}, Slot: db.Slot, Publication: db.Publication, Confirmed: func() lsn.LSN { return 0 }}
	err = replication.Run(t.Context(), config, func(context.Context, *replication.Stream) error { return nil })
	requireOperator(t, err, "way to "+addr, "let postgres.dsn lead to the server itself")
}

// Bug (poolers): A pooler's refusal of the replication connection was treated as a broken connection. Cost: `run`
// retried forever, after `setup` had created a slot that retains WAL without a reader.
//
// Bug (poolers): A pooler configured to ignore settings it does not know was streamed through. Cost: values written in
// formats that differ from the record's.
func TestPoolersStandIns(t *testing.T) {
	for name, c := range map[string]struct {
		behaviour pooler.Behaviour
		code      string
		words     []string
	}{
		"as PgBouncer before 1.23": {
			pooler.Behaviour{Refuse: []string{"replication"}, PID: 1998201864},
			"pooler",
			[]string{"unsupported startup parameter: replication"},
		},
		"as PgBouncer since": {
			pooler.Behaviour{Refuse: []string{"bytea_output"}, PID: 1998201864},
			"pooler",
			[]string{"but not with the settings that decide how values are written"},
		},
		"as PgBouncer configured to ignore": {
			pooler.Behaviour{
				Drop: []string{
					"bytea_output", "extra_float_digits", "synchronous_commit", "client_min_messages", "IntervalStyle",
				}, PID: 5,
			},
			"pooler_settings",
			[]string{"session: client_min_messages, synchronous_commit."},
		}, // the others have the server's own values
		"as Supavisor": {
			pooler.Behaviour{Drop: []string{"replication"}, PID: 17}, "pooler", []string{"an ordinary one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newAdminDB(t, setupTableDDL)
			s, err := pooler.Start(db.Addr(), c.behaviour)
			require.NoError(t, err)
			defer s.Close()
			requirePooler(t, db, s.Addr(), c.code, c.words...)
		})
	}
}

// TestUnknownProxy: another pid alone is reported, and stops no process.
//
// Bug (poolers): Through a proxy that answers with pids of its own (Neon), the pid from the login was compared with the
// pid that holds the slot. Cost: on a standby, a false "another server".
func TestUnknownProxy(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	s, err := pooler.Start(db.Addr(), pooler.Behaviour{PID: 4242})
	require.NoError(t, err)
	defer s.Close()
	dsn := through(t, db.DSN, s.Addr())
	findings := ofTheWay(t, Preflight(t.Context(), dsn, db.cfg))
	require.Len(t, findings, 1)
	require.Equal(t, preflight.Warn, findings[0].Level)
	require.Equal(t, "unknown_proxy", findings[0].Code)
	require.Contains(t, findings[0].Found, "Something between us and the server answers with another backend pid: 4242")
	require.NoError(t, Ensure(t.Context(), dsn, db.cfg, true))

	config := replication.Config{DSN: func() (string, error) {
		return dsn, nil
	}, Slot: db.Slot, Publication: db.Publication, Confirmed: func() lsn.LSN { return 0 }}
	require.NoError(t, replication.Run(t.Context(), config, func(_ context.Context, stream *replication.Stream) error {
		slot, err := postgres.LookupSlot(t.Context(), db.conn, db.Slot)
		require.NoError(t, err)
		require.Equal(t, slot.ActivePID, int(stream.Identity().BackendPID),
			"the walsender's, not the login's")
		return nil
	}))
}

// TestVersionsNoPoolerDetectedWithoutOne: not directly, not through something that copies bytes.
func TestVersionsNoPoolerDetectedWithoutOne(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.Empty(t, ofTheWay(t, Preflight(t.Context(), db.DSN, db.cfg)))
	p, err := proxy.Start(db.Addr(), proxy.Raw)
	require.NoError(t, err)
	defer p.Close()
	require.Empty(t, ofTheWay(t, Preflight(t.Context(), through(t, db.DSN, p.Addr()), db.cfg)))
	require.NoError(t, Ensure(t.Context(), through(t, db.DSN, p.Addr()), db.cfg, true))
}

// TestOneHostOfSeveralIsAPooler: with target_session_attrs and fail-over any of them may be used.
func TestOneHostOfSeveralIsAPooler(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	s, err := pooler.Start(db.Addr(), pooler.Behaviour{Refuse: []string{"replication"}, PID: 9})
	require.NoError(t, err)
	defer s.Close()
	for _, hosts := range []string{db.Addr() + "," + s.Addr(), s.Addr() + "," + db.Addr()} {
		findings := ofTheWay(t, Preflight(t.Context(), through(t, db.DSN, hosts), db.cfg))
		require.Len(t, findings, 1, hosts)
		require.Equal(t, "way to "+s.Addr(), findings[0].Subject)
	}
}

// TestPgBouncer is against the real one, where it is installed.
//
// Bug (poolers): Through a pooler that lends connections per transaction, `check` failed at a prepared statement of the
// previous `check`. Cost: a search in the wrong place.
func TestPgBouncer(t *testing.T) {
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			db := newAdminDB(t, setupTableDDL)
			start := func(opts pooler.Options) *pooler.PgBouncer {
				opts.Mode = mode
				p, err := pooler.StartPgBouncer(t.Context(), db.Addr(), opts)
				if errors.Is(err, pooler.ErrNotInstalled) {
					t.Skip(err)
				}
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, p.Close()) })
				return p
			}
			p := start(pooler.Options{})
			requirePooler(t, db, p.Addr(), "pooler", "It leads to PgBouncer,", "replication")
			for range 3 { // prepared statements of one check must not hinder the next
				findings := Preflight(t.Context(), through(t, db.DSN, p.Addr()), db.cfg)
				require.Equal(t, "connection", findings[0].Subject)
				require.Equal(t, preflight.OK, findings[0].Level)
			}
			p = start(pooler.Options{Admins: "postgres"})
			requirePooler(t, db, p.Addr(), "pooler", "It leads to PgBouncer "+p.Version+",",
				"console names it "+db.Addr())
			p = start(pooler.Options{Settings: map[string]string{"ignore_startup_parameters": "replication, " +
				"extra_float_digits, bytea_output, synchronous_commit, client_min_messages, IntervalStyle"}})
			findings := ofTheWay(t, Preflight(t.Context(), through(t, db.DSN, p.Addr()), db.cfg))
			require.Len(t, findings, 1, "1.18 drops the wish for replication then, later ones the settings")
			require.Equal(t, preflight.Fail, findings[0].Level)
		})
	}
}

// TestPgBouncerLogin is with either way to authenticate.
func TestPgBouncerLogin(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	for _, auth := range []string{"md5", "scram-sha-256"} {
		p, err := pooler.StartPgBouncer(t.Context(), db.Addr(), pooler.Options{
			Mode: "session", Auth: auth, Password: "right",
		})
		if errors.Is(err, pooler.ErrNotInstalled) {
			t.Skip(err)
		}
		require.NoError(t, err)
		dsn := "postgres://postgres:right@" + p.Addr() + "/" + db.Name
		found := ofTheWay(t, Preflight(t.Context(), dsn, db.cfg))
		require.Len(t, found, 1, auth)
		require.Contains(t, found[0].Found, "replication", auth)
		wrong := strings.Replace(dsn, "right", "s3cret-canary", 1)
		all := Preflight(t.Context(), wrong, db.cfg)
		require.Len(t, all, 1, auth)
		require.Len(t, ofTheWay(t, all), 1, auth)
		require.Contains(t, all[0].Found, "refuses the login", auth)
		err = Ensure(t.Context(), wrong, db.cfg, true)
		requireOperator(t, err, "refuses the login")
		require.NotContains(t, err.Error(), "s3cret-canary")
		require.NoError(t, p.Close())
	}
}
