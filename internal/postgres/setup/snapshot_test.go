package setup

import (
	"fmt"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/stretchr/testify/require"
)

func newSnapshotDB(t *testing.T) *adminDB {
	db := newAdminDB(t, setupTableDDL)
	// its end makes it unique; the list has the slot's name in its own
	db.Slot = "s" + db.Slot[max(0, len(db.Slot)-42):]
	db.cfg.Slot, db.cfg.Snapshot = db.Slot, true
	db.Exec(t,
		`INSERT INTO outbox SELECT gen_random_uuid(), 'a', 'k', 'created', '{}', NULL, now() - g * interval '1 s'
			FROM generate_series(1, 3) g`)
	return db
}

// read takes all that is left, without striking anything off.
func (db *adminDB) readSnapshot(t *testing.T) (ids []string) {
	t.Helper()
	s, err := snapshot.Open(t.Context(), db.DSN, db.cfg.Objects)
	require.NoError(t, err)
	require.NotNil(t, s)
	defer s.Close()
	last, err := s.Batch(t.Context(), 0, func(n int64, rel *pgoutput.Relation, row pgoutput.Tuple) error {
		require.Equal(t, "outbox", rel.Name)
		require.EqualValues(t, len(ids)+1, n)
		ids = append(ids, string(row[rel.Column("id")].Data))
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, len(ids), last)
	return ids
}

// Bug (rows): The initial snapshot read each row whole, whatever its length. Cost: as with a row of the stream, which
// ended every start.
func TestSnapshotBoundsARow(t *testing.T) {
	db := newSnapshotDB(t)
	db.Exec(t, `UPDATE outbox SET payload = to_jsonb(repeat('x', 3000000))`)
	require.NoError(t, db.ensure(t, true))
	s, err := snapshot.Open(t.Context(), db.DSN, db.cfg.Objects)
	require.NoError(t, err)
	defer s.Close()
	s.LimitRows(2 << 20)
	_, err = s.Batch(t.Context(), 0, func(int64, *pgoutput.Relation, pgoutput.Tuple) error { return nil })
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, "window.row allows 2097152")
}

// idTypes are those whose name, without a length, would cut the id when it is cast.
var idTypes = map[string]string{"char(12)": "('event-' || g)", "bit(8)": "g::bit(8)"}

// Bug (rows): The initial snapshot looked rows up by ids cast to `character` or `bit`, which without a length means
// one. Cost: with an id of type char(n) or bit(n) no row was published.
func TestSnapshotFindsRowsByIDsOfAnyType(t *testing.T) {
	for idType, id := range idTypes {
		t.Run(idType, func(t *testing.T) {
			db := newSnapshotDB(t)
			db.Exec(t,
				fmt.Sprintf(
					`DROP TABLE outbox; CREATE TABLE outbox (id %s PRIMARY KEY, aggregate_type text, aggregate_id text,
						event_type text, payload jsonb, headers jsonb,
				created_at timestamptz DEFAULT now()); INSERT INTO outbox SELECT %s, 'a', 'k', 'created', '{}'
					FROM generate_series(1, 3) g`, idType, id))
			require.NoError(t, db.ensure(t, true))
			require.Len(t, db.readSnapshot(t), 3)
		})
	}
}

// The stream takes the commit's time where the table has no timestamp, so such tables are in use.
//
// Bug (rows): `postgres.snapshot: initial` could not list a table without the timestamp column, which the stream does
// not need. Cost: `setup` failed after it had created the slot.
func TestSnapshotOfATableWithoutATimestamp(t *testing.T) {
	db := newSnapshotDB(t)
	db.Exec(t,
		`DROP TABLE outbox; CREATE TABLE outbox (id int PRIMARY KEY, aggregate_type text, aggregate_id text,
			event_type text, payload jsonb, headers jsonb);
		INSERT INTO outbox SELECT g, 'a', 'k', 'created', '{}' FROM generate_series(3, 1, -1) g`)
	require.NoError(t, db.ensure(t, true))
	require.Equal(t, []string{"1", "2", "3"}, db.readSnapshot(t))
}

// A setup that was killed between slot and list: the slot is re-created, with what has been committed since.
func TestSnapshotSetupIsTakenUpAgain(t *testing.T) {
	db := newSnapshotDB(t)
	require.NoError(t, db.ensure(t, true))
	require.Len(t, db.readSnapshot(t), 3)
	before := db.slot(t)
	list := snapshot.List(db.cfg.Objects)
	db.Exec(t, fmt.Sprintf("COMMENT ON PUBLICATION %s IS '%s'; DELETE FROM %s; COMMENT ON TABLE %s IS '%s%s%s'",
		db.Publication, pendingMark(db.cfg),
		list.SQL(), list.SQL(), snapshot.Unfinished, snapshot.MadeAt, before.ConfirmedFlush))
	_, err := snapshot.Open(t.Context(), db.DSN, db.cfg.Objects)
	requireOperator(t, err, "was interrupted")
	db.Exec(t, `INSERT INTO outbox VALUES (gen_random_uuid(), 'a', 'k', 'created')`)
	require.NoError(t, db.ensure(t, true))
	require.Greater(t, db.slot(t).ConfirmedFlush, before.ConfirmedFlush)
	require.Len(t, db.readSnapshot(t), 4)
	require.Empty(t, db.publication(t).Comment)
}

// A slot that has moved since has been read from: it is never dropped.
func TestSnapshotSetupDropsNoSlotThatWasRead(t *testing.T) {
	db := newSnapshotDB(t)
	require.NoError(t, db.ensure(t, true))
	before := db.slot(t)
	list := snapshot.List(db.cfg.Objects)
	db.Exec(t, fmt.Sprintf("COMMENT ON TABLE %s IS '%s%s0/1'", list.SQL(), snapshot.Unfinished, snapshot.MadeAt))
	require.NoError(t, db.ensure(t, true))
	require.Equal(t, before.ConfirmedFlush, db.slot(t).ConfirmedFlush)
	_, err := snapshot.Open(t.Context(), db.DSN, db.cfg.Objects)
	requireOperator(t, err, "teardown")
	_, err = Teardown(t.Context(), db.DSN, db.cfg, false)
	require.NoError(t, err)
	require.NoError(t, db.ensure(t, true))
	require.Len(t, db.readSnapshot(t), 3)
}

// Rows deleted meanwhile are left out, and numbers stay.
func TestSnapshotIsStruckOffByNumber(t *testing.T) {
	db := newSnapshotDB(t)
	require.NoError(t, db.ensure(t, true))
	ids := db.readSnapshot(t)
	db.Exec(t, fmt.Sprintf("DELETE FROM outbox WHERE id = '%s'", ids[1]))
	s, err := snapshot.Open(t.Context(), db.DSN, db.cfg.Objects)
	require.NoError(t, err)
	defer s.Close()
	require.EqualValues(t, 3, s.Left())
	require.NoError(t, s.Done(t.Context(), 1))
	last, err := s.Batch(t.Context(), 0, func(n int64, _ *pgoutput.Relation, _ pgoutput.Tuple) error {
		require.EqualValues(t, 3, n)
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 3, last)
	require.NoError(t, s.Done(t.Context(), last))
	last, err = s.Batch(t.Context(), last, nil)
	require.NoError(t, err)
	require.Zero(t, last)
	require.NoError(t, s.Finish(t.Context()))
	none, err := snapshot.Open(t.Context(), db.DSN, db.cfg.Objects)
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestSnapshotNeedsIDs(t *testing.T) {
	db := newAdminDB(t,
		`CREATE TABLE outbox (id text, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
			event_type text NOT NULL, payload jsonb, headers jsonb, created_at timestamptz)`)
	db.cfg.Snapshot = true
	db.Exec(t, `INSERT INTO outbox VALUES (NULL, 'a', 'k', 'created')`)
	requireOperator(t, db.ensure(t, true), "null value in column")
	db.Exec(t, `DELETE FROM outbox`)
	require.NoError(t, db.ensure(t, true), "the slot of the attempt before is replaced")
}
