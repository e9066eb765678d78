package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// TestCheckEnvironment: a user who did not set the DSN reads where libpq's variables lead, and is warned if none of
// them names the database.
func TestCheckEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		dsn  string
		want []preflight.Finding
	}{
		"nothing": {},
		"a DSN":   {env: map[string]string{"PGHOST": "10.0.0.1"}, dsn: "host=10.0.0.2"},
		"a host and a role": {
			env: map[string]string{"PGHOST": "10.0.0.1", "PGUSER": "relay"},
			want: []preflight.Finding{{
				Level: preflight.Warn, Subject: "postgres.dsn",
				Found: `It is not set; PGHOST, PGUSER of the environment led to database "relay" of 10.0.0.1:5432, ` +
					`as role "relay".`,
				Why:    "None of them names the database, so libpq's rule applies: it has the name of the role.",
				Remedy: "Set postgres.dsn, or PGDATABASE.",
			}},
		},
		"all of it": {
			env: map[string]string{"PGHOST": "10.0.0.1", "PGPORT": "5433", "PGDATABASE": "shop", "PGUSER": "relay"},
			want: []preflight.Finding{{
				Level: preflight.OK, Subject: "postgres.dsn",
				Found: `It is not set; PGHOST, PGPORT, PGDATABASE, PGUSER of the environment led to database "shop" ` +
					`of 10.0.0.1:5433, as role "relay".`,
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE", "PGSERVICEFILE"} {
				t.Setenv(name, test.env[name])
			}
			require.Equal(t, test.want, CheckEnvironment(test.dsn))
		})
	}
}
