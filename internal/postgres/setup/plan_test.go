package setup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

func planConfig() Config {
	return Config{
		Objects: postgres.Objects{
			Slot: "s", Publication: "p", Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		},
	}
}

// planState is a database in which the table is all there is.
func planState() state {
	return state{
		Server: postgres.Server{
			ServerFacts: postgres.ServerFacts{Version: 150000, Database: "db"}, User: "me", Encoding: "UTF8",
			WALLevel: "logical", MayReplicate: true, MayCreate: true, MaxSlots: 10, MaxSenders: 10,
		},
		Tables: []postgres.OutboxTable{
			{
				Table: identifier.Table{Schema: "public", Name: "outbox"}, Exists: true, Kind: "r", Persistence: "p",
				Selectable: true, Owned: true,
			},
		},
	}
}

func TestSetupScript(t *testing.T) {
	cfg := planConfig()
	cfg.Role = "con nector"
	cfg.TableDDL = "CREATE TABLE outbox (id uuid) PARTITION BY RANGE (id)"
	cfg.Failover = true
	require.Equal(t, `CREATE TABLE outbox (id uuid) PARTITION BY RANGE (id);
CREATE ROLE "con nector" LOGIN REPLICATION;
GRANT USAGE ON SCHEMA "public" TO "con nector";
GRANT SELECT ON TABLE "public"."outbox" TO "con nector";
CREATE PUBLICATION "p" FOR TABLE "public"."outbox" WITH (publish = 'insert', publish_via_partition_root = true);
SELECT pg_catalog.pg_create_logical_replication_slot('s', 'pgoutput', failover => true);`, stepsSQL(Script(cfg)))
	for _, s := range Script(cfg) {
		require.NotEmpty(t, s.Why)
	}
}

func TestPlanSetupListsWhatIsMissing(t *testing.T) {
	sql := func(change func(*Config, *state)) string {
		cfg, st := planConfig(), planState()
		change(&cfg, &st)
		return stepsSQL(planSetup(cfg, st))
	}
	const publication = `CREATE PUBLICATION "p" FOR TABLE "public"."outbox" WITH (publish = 'insert');`
	const slot = `SELECT pg_catalog.pg_create_logical_replication_slot('s', 'pgoutput');`
	require.Equal(t, publication+"\n"+slot, sql(func(*Config, *state) {}))
	require.Equal(t, slot, sql(func(_ *Config, st *state) { st.Publication.Exists = true }))
	require.Empty(t, sql(func(c *Config, st *state) {
		st.Publication.Exists, st.Slot.Exists, c.TableDDL = true, true, "CREATE TABLE x"
	}), "the table is there, so its DDL is not")
	require.Contains(t, sql(func(_ *Config, st *state) {
		st.Tables[0].Kind = "p"
	}), "publish_via_partition_root = true")
	require.Equal(t, `CREATE PUBLICATION "p" WITH (publish = 'insert');`+"\n"+slot,
		sql(func(c *Config, st *state) { c.Tables, st.Tables = nil, nil }), "logical messages need no table")
}

func TestPlanGrants(t *testing.T) {
	plan := func(r roleInfo, rds bool) string {
		cfg, st := planConfig(), planState()
		cfg.Role, st.Role = "r", r
		if rds {
			st.Server.Service = cloud.RDS
		}
		return stepsSQL(planGrants(cfg, st))
	}
	has := roleInfo{
		Name: "r", Exists: true, MayLogIn: true, MayReplicate: true, MayConnect: true,
		Using:     map[string]bool{"public": true},
		Selecting: map[identifier.Table]bool{{Schema: "public", Name: "outbox"}: true},
	}
	require.Empty(t, plan(has, false))
	some := has
	some.MayReplicate, some.MayLogIn, some.MayConnect = false, false, false
	require.Equal(t, `ALTER ROLE "r" LOGIN;
ALTER ROLE "r" REPLICATION;
GRANT CONNECT ON DATABASE "db" TO "r";`, plan(some, false))
	require.Contains(t, plan(some, true), `GRANT rds_replication TO "r";`)
	require.Contains(t, plan(roleInfo{}, true), "CREATE ROLE \"r\" LOGIN;\nGRANT rds_replication TO \"r\";")
	require.Contains(t, plan(roleInfo{}, false), `CREATE ROLE "r" LOGIN REPLICATION;`)
	require.NotContains(t, plan(roleInfo{}, false), "ALTER ROLE")
}

func TestPlanTeardown(t *testing.T) {
	cfg, st := planConfig(), planState()
	require.Empty(t, planTeardown(cfg, st, false))
	st.Slot.Exists, st.Publication.Exists = true, true
	require.Equal(t, "SELECT pg_catalog.pg_drop_replication_slot('s');\nDROP PUBLICATION \"p\";\nDROP TABLE "+
		"\"public\".\"outbox\";", stepsSQL(planTeardown(cfg, st, true)))
	require.Len(t, planTeardown(cfg, st, false), 2)
}

// stepsSQL joins the statements for pasting.
func stepsSQL(steps []Step) string { return strings.Join(stepCommands(steps), "\n") }

func TestPlanTeardownKeepsAPublicationThatAnotherSlotMayRead(t *testing.T) {
	cfg, st := planConfig(), setUpState()
	st.Readers = []string{"b (a session reads it)"}
	steps := planTeardown(cfg, st, false)
	require.Len(t, steps, 2)
	require.True(t, steps[0].Does())
	require.False(t, steps[1].Does())
	require.Contains(t, steps[1].Why, "b (a session reads it)")
	require.Contains(t, steps[1].Why, "teardown --drop-publication")
	cfg.DropPublication = true
	require.True(t, planTeardown(cfg, st, false)[1].Does())
}
