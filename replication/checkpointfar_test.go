package replication

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// withFarRow is the checkpoint of withRow with the slot on a hot standby. Two databases of one server take the places
// of the two servers: the slot's database says that it is in recovery, and what it replays is what the test puts there.
func withFarRow(t *testing.T) (near *source, primary *testkit.Database, cp *checkpoint, put func(string, int)) {
	t.Helper()
	near, cp, put = withRow(t)
	primary = testkit.Postgres(t)
	primary.Exec(t, statetables.CheckpointDDL(near.Config.Checkpoint))
	near.Config.PrimaryDSN = func() (string, error) { return primary.DSN, nil }
	near.Exec(t, `ALTER FUNCTION pg_catalog.pg_is_in_recovery() RENAME TO its_own; `+inRecovery("SELECT true", "sql"))
	cp.close() // a session keeps what it has looked up
	cp.far = true
	return near, primary, cp, put
}

// inRecovery replaces the function that reports whether a server is a standby, in this database: no session would find
// one of another schema.
func inRecovery(body, language string) string {
	return fmt.Sprintf(`CREATE OR REPLACE FUNCTION pg_catalog.pg_is_in_recovery() RETURNS boolean VOLATILE
		LANGUAGE %s AS $body$ %s $body$`, language, body)
}

// primaryRow is the slot's row on the primary.
func primaryRow(t *testing.T, cp *checkpoint) *postgres.Checkpoint {
	t.Helper()
	require.NoError(t, cp.open(t.Context(), &cp.primary, cp.cfg.PrimaryDSN))
	row, err := cp.readAgain(t.Context(), cp.primary)
	require.NoError(t, err)
	return row
}

// A position counts as stored when the standby has replayed it, and until then it is written once.
func TestCheckpointWaitsForTheStandby(t *testing.T) {
	near, primary, cp, put := withFarRow(t)
	primary.Exec(t, fmt.Sprintf(`INSERT INTO cdc_outbox_slots (slot, system_id, timeline, position, writes)
		VALUES ('%s', '1', 3, '0/384', 7)`, near.Config.Slot))
	cp.last.Writes = 7
	near.Exec(t, `CREATE TABLE asked (times int); INSERT INTO asked VALUES (0)`)
	near.Exec(t, inRecovery(fmt.Sprintf(`DECLARE n int; BEGIN
			UPDATE public.asked SET times = times + 1 RETURNING times INTO n;
			IF n = 3 THEN INSERT INTO public.cdc_outbox_slots (slot, system_id, timeline, position, writes)
				VALUES ('%s', '1', 3, '0/3E8', 8); END IF;
			RETURN true; END`, near.Config.Slot), "plpgsql"))
	require.NoError(t, cp.store(t.Context(), 1000))
	near.Exec(t, `DO $$ BEGIN ASSERT (SELECT times FROM asked) = 4; END $$`) // a statement does not see its own row
	require.EqualValues(t, 1000, cp.stored.Load())
	require.Equal(t, &postgres.Checkpoint{SystemID: "1", Timeline: 3, Position: 1000, Writes: 8}, primaryRow(t, cp))
	require.NoError(t, cp.store(t.Context(), 990))
	require.EqualValues(t, 8, primaryRow(t, cp).Writes, "the standby has it already")
	require.True(t, cp.far)

	primary.Exec(t, `UPDATE cdc_outbox_slots SET system_id = '2'`)
	err := cp.store(t.Context(), 1100)
	var far *farError
	require.ErrorAs(t, err, &far)
	require.ErrorContains(t, err, "on the primary: ")
	require.ErrorContains(t, err, "another cluster's")

	pid := cp.id.BackendPID
	cp.id.BackendPID++
	require.ErrorContains(t, cp.store(t.Context(), 1000), "another server than the stream's")
	cp.id.BackendPID = pid
	slot := near.Config.Slot
	near.Config.Slot = "none"
	require.ErrorContains(t, cp.store(t.Context(), 1000), "another server than the stream's")
	near.Config.Slot = slot

	core, logs := observer.New(zap.InfoLevel)
	near.Config.Logger = zap.New(core)
	near.Exec(t, inRecovery("SELECT false", "sql"))
	put("0/3E8", 3)
	require.NoError(t, cp.store(t.Context(), 1200))
	require.Equal(t, 1, logs.FilterMessageSnippet("was promoted").Len())
	require.False(t, cp.far)
	require.Equal(t, &postgres.Checkpoint{SystemID: "1", Timeline: 3, Position: 1200, Writes: 4}, near.rowOf(t, cp),
		"the number counts from where the standby had it")
}

// A stream on a hot standby begins with the row on the primary, and with what this process has written there.
func TestCheckpointBeginsOnThePrimary(t *testing.T) {
	near, primary, cp, _ := withFarRow(t)
	require.NoError(t, cp.beginFar(t.Context(), 700))
	require.EqualValues(t, 700, primaryRow(t, cp).Position)
	require.EqualValues(t, 700, cp.written)

	primary.Exec(t, `UPDATE cdc_outbox_slots SET writes = 6`)
	cp.last = Mark{SystemID: "1", Timeline: 3, Writes: 7, Position: 700, Published: 600}
	require.Equal(t, fault.Operator, fault.KindOf(cp.beginFar(t.Context(), 800)))
	require.EqualValues(t, 700, primaryRow(t, cp).Position, "nothing was written on a primary that was put back")
	primary.Exec(t, `UPDATE cdc_outbox_slots SET writes = 7`)
	require.NoError(t, cp.beginFar(t.Context(), 800))
	require.EqualValues(t, 800, primaryRow(t, cp).Position)
	require.EqualValues(t, 800, cp.written)

	refuse := func(code string) {
		primary.Exec(t, fmt.Sprintf(`CREATE OR REPLACE FUNCTION no() RETURNS trigger LANGUAGE plpgsql
			AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''%s''; END'`, code))
	}
	requirePrimaryFault := func(err error, words string) {
		t.Helper()
		var f *fault.Error
		require.ErrorAs(t, err, &f)
		require.Equal(t, "postgres.primary_dsn", f.Object)
		require.Equal(t, fault.Retry, f.Kind)
		require.ErrorContains(t, err, words)
	}
	refuse("25006")
	primary.Exec(t, `CREATE TRIGGER no BEFORE INSERT ON cdc_outbox_slots FOR EACH ROW EXECUTE FUNCTION no()`)
	requirePrimaryFault(cp.beginFar(t.Context(), 900), "read-only")
	require.False(t, cp.off.Load())
	refuse("42501")
	require.NoError(t, cp.beginFar(t.Context(), 900))
	require.True(t, cp.off.Load(), "without the right to write there, the stream has no checkpoint")
	require.EqualValues(t, 800, cp.written)

	cp.close()
	near.Config.PrimaryDSN = func() (string, error) { return "", errors.New("no file") }
	requirePrimaryFault(cp.beginFar(t.Context(), 900), "connection string")
	near.Config.PrimaryDSN = func() (string, error) { return "host=127.0.0.1 port=1 connect_timeout=1", nil }
	requirePrimaryFault(cp.beginFar(t.Context(), 900), "on the primary: ")
}
