package cloud

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecognise(t *testing.T) {
	for name, c := range map[string]struct {
		facts Facts
		want  Service
	}{
		"PostgreSQL":               {Facts{Bootstrap: "postgres"}, Plain},
		"nothing seen":             {Facts{}, Plain},
		"RDS":                      {Facts{Settings: []string{"rds.extensions"}, Roles: []string{"rds_superuser"}, Bootstrap: "rdsadmin"}, RDS},
		"RDS, settings hidden":     {Facts{Roles: []string{"rds_superuser"}, Bootstrap: "rdsadmin"}, RDS},
		"Aurora":                   {Facts{Settings: []string{"rds.logical_replication"}, Roles: []string{"rds_superuser"}, Aurora: true}, Aurora},
		"Cloud SQL":                {Facts{Settings: []string{"cloudsql.logical_decoding"}, Roles: []string{"cloudsqlsuperuser"}}, CloudSQL},
		"AlloyDB":                  {Facts{Settings: []string{"alloydb.iam_authentication"}, Bootstrap: "alloydbadmin"}, AlloyDB},
		"Azure":                    {Facts{Settings: []string{"azure.extensions"}, Roles: []string{"azure_pg_admin"}}, Azure},
		"Supabase":                 {Facts{Roles: []string{"supabase_auth_admin"}, Bootstrap: "supabase_admin"}, Supabase},
		"Neon":                     {Facts{Settings: []string{"neon.timeline_id"}, Roles: []string{"neon_superuser"}}, Neon},
		"roles of a restored dump": {Facts{Roles: MarkerRoles(), Bootstrap: "postgres"}, Plain},
		"a superuser of that name": {Facts{Bootstrap: "rdsadmin"}, Plain},
		"a setting of that name":   {Facts{Settings: MarkerSettings()}, Plain},
		"a function of that name":  {Facts{Aurora: true, Bootstrap: "postgres"}, Plain},
		"traces of two":            {Facts{Settings: MarkerSettings(), Roles: MarkerRoles()}, Plain},
	} {
		require.Equal(t, c.want, Recognise(c.facts), name)
	}
}

// TestRemediesAreNotForSuperusers: no service has superusers, so ALTER SYSTEM cannot be a remedy there.
func TestRemediesAreNotForSuperusers(t *testing.T) {
	for _, s := range Services() {
		for _, text := range Remedies(s, "cdc_outbox") {
			require.NotContains(t, text, "ALTER SYSTEM", s)
			require.NotContains(t, text, "pg_reload_conf", s)
			require.NotContains(t, text, "%!", s)
			with := s.With(text)
			require.True(t, strings.HasPrefix(with, text))
			require.Contains(t, with, s.Page())
		}
	}
	require.Equal(t, "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB';\nSELECT pg_reload_conf();", Plain.LimitWAL(51200))
	require.Equal(t, "ALTER SYSTEM SET max_slot_wal_keep_size = '77MB';\nSELECT pg_reload_conf();", Plain.LimitWAL(77))
	require.Equal(t, "ALTER SYSTEM SET max_slot_wal_keep_size = '-1';\nSELECT pg_reload_conf();", Plain.LimitWAL(-1))
	require.Equal(t, "ALTER SYSTEM SET wal_level = 'logical';\n-- then restart the server", Plain.LogicalDecoding())
	require.Equal(t, Plain.LogicalDecoding(), Plain.With(Plain.LogicalDecoding()))
}

// TestNeonRoleCannotBreakOut: the role's name goes into a shell command.
func TestNeonRoleCannotBreakOut(t *testing.T) {
	require.Contains(t, Neon.Replication("cdc_outbox", `"cdc_outbox"`), "--name cdc_outbox")
	for _, role := range []string{"x; rm -rf ~", "$(id)", "a\nb", "", "'"} {
		require.True(t, strings.HasSuffix(Neon.Replication(role, "q"), "--name NAME"), role)
	}
}
