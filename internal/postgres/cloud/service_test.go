package cloud

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func TestRecognise(t *testing.T) {
	for name, c := range map[string]struct {
		facts Facts
		want  Service
	}{
		"PostgreSQL":   {Facts{Bootstrap: "postgres"}, Plain},
		"nothing seen": {Facts{}, Plain},
		"RDS": {
			Facts{Settings: []string{"rds.extensions"}, Roles: []string{"rds_superuser"}, Bootstrap: "rdsadmin"}, RDS,
		},
		"RDS, settings hidden": {Facts{Roles: []string{"rds_superuser"}, Bootstrap: "rdsadmin"}, RDS},
		"Aurora": {
			Facts{Settings: []string{"rds.logical_replication"}, Roles: []string{"rds_superuser"}, Aurora: true},
			Aurora,
		},
		"Cloud SQL": {
			Facts{Settings: []string{"cloudsql.logical_decoding"}, Roles: []string{"cloudsqlsuperuser"}}, CloudSQL,
		},
		"AlloyDB": {
			Facts{Settings: []string{"alloydb.iam_authentication"}, Bootstrap: "alloydbadmin"}, AlloyDB,
		},
		"Azure": {
			Facts{Settings: []string{"azure.extensions"}, Roles: []string{"azure_pg_admin"}}, Azure,
		},
		"Supabase": {
			Facts{Roles: []string{"supabase_auth_admin"}, Bootstrap: "supabase_admin"}, Supabase,
		},
		"Neon": {
			Facts{Settings: []string{"neon.timeline_id"}, Roles: []string{"neon_superuser"}}, Neon,
		},
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
		for _, r := range Remedies(s, "cdc_outbox") {
			text := r.String()
			require.NotContains(t, text, "ALTER SYSTEM", s)
			require.NotContains(t, text, "pg_reload_conf", s)
			require.NotContains(t, text, "%!", s)
			with := s.With(r)
			require.Equal(t, r.Commands, with.Commands)
			require.Contains(t, with.Next, s.Page())
		}
	}
	for limit, sql := range map[int64]string{51200: "50GB", 77: "77MB", -1: "-1"} {
		require.Equal(t, []string{"ALTER SYSTEM SET max_slot_wal_keep_size = '" + sql + "';", "SELECT " +
			"pg_reload_conf();"},
			Plain.LimitWAL(limit).Commands)
	}
	require.Equal(t, fault.Remedy{
		Next: "Set wal_level, then restart the server.", Commands: []string{"ALTER SYSTEM SET wal_level = 'logical';"},
	}, Plain.LogicalDecoding())
	require.Equal(t, Plain.LogicalDecoding(), Plain.With(Plain.LogicalDecoding()))
}

// TestCommandsCanBePasted: they hold no comment, and SQL ends with a semicolon.
func TestCommandsCanBePasted(t *testing.T) {
	for _, s := range append(Services(), Plain) {
		for _, r := range Remedies(s, "cdc_outbox") {
			require.True(t, strings.HasSuffix(r.Next, "."), r.Next)
			for _, c := range r.Commands {
				require.NotRegexp(t, `(?m)^(#|--)|\n`, c)
				first, _, _ := strings.Cut(c, " ")
				require.Equal(t, first == strings.ToUpper(first), strings.HasSuffix(c, ";"), c)
			}
		}
	}
}

// TestNeonRoleCannotBreakOut: the role's name goes into a shell command.
func TestNeonRoleCannotBreakOut(t *testing.T) {
	require.Equal(t, []string{"neon roles create --name cdc_outbox"},
		Neon.Replication("cdc_outbox", `"cdc_outbox"`).Commands)
	for _, role := range []string{"x; rm -rf ~", "$(id)", "a\nb", "", "'"} {
		require.Equal(t, []string{"neon roles create --name NAME"}, Neon.Replication(role, "q").Commands, role)
	}
}
