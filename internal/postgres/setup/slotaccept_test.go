package setup

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
)

// fakeOutside is Kafka.
type fakeOutside struct {
	has      postgres.Mark
	accepted int
}

func (o *fakeOutside) Fetch(context.Context, string) (postgres.Mark, error) { return o.has, nil }

func (o *fakeOutside) Accept(_ context.Context, m postgres.Mark) error {
	o.has = m
	o.accepted++
	return nil
}

// TestAcceptOfASlotThatNeedsNone: while table, slot and Kafka speak of one history, accept changes nothing and says so;
// once the slot was moved, or Kafka knows of more writes than the table has, it accepts.
//
// Bug (stream): `slot accept` replaced the position that exactly-once delivery keeps in Kafka, also of a slot that was
// where it was left. Cost: after a kill -9, the events between the slot's position and that one again.
func TestAcceptOfASlotThatNeedsNone(t *testing.T) {
	t.Parallel()
	db := newAdminDB(t, setupTableDDL)
	db.cfg.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
	db.Exec(t, statetables.CheckpointDDL(db.cfg.Checkpoint))
	require.NoError(t, db.ensure(t, true))
	kafka := &fakeOutside{}
	db.cfg.Outside = kafka
	accept := func() *SlotReport {
		r, err := AcceptSlot(t.Context(), db.DSN, db.cfg)
		require.NoError(t, err)
		require.NoError(t, r.Problem())
		return &r
	}
	require.False(t, accept().Unchanged(), "nothing was remembered")
	require.Equal(t, 1, kafka.accepted)
	first := accept()
	require.True(t, first.Unchanged())
	require.Equal(t, 1, kafka.accepted)
	require.Equal(t, first.Writes, accept().Writes)

	kafka.has.Writes += 5
	require.False(t, accept().Unchanged(), "Kafka knows of more")
	require.Equal(t, 2, kafka.accepted)
	require.True(t, accept().Unchanged())

	db.Exec(t, fmt.Sprintf(`UPDATE %s SET position = '%s'`, db.cfg.Checkpoint.SQL(), lsn.LSN(1)))
	require.False(t, accept().Unchanged(), "the slot is past what is remembered")
	require.Equal(t, 3, kafka.accepted)
}

// The session of a connector that has just ended is waited for; one that reads on is not.
//
// Bug (setup): `slot accept`, `recreate` and `advance` refused to change a slot whose connector had just ended on an
// error: its session lasts until the server notices. Cost: a script that does what the connector printed failed.
func TestChangeOfASlotWhoseReaderEnds(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	pid := db.readSlot(t)
	_, err := RecreateSlot(t.Context(), db.DSN, db.cfg)
	requireOperator(t, err, "it is being read by pid "+strconv.Itoa(pid))

	changed := make(chan error, 1)
	go func() {
		_, err := RecreateSlot(t.Context(), db.DSN, db.cfg)
		changed <- err
	}()
	require.Eventually(t, func() bool {
		var there bool
		require.NoError(t, db.conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()
			AND query LIKE '%pg_replication_slots%')`).Scan(&there))
		return there
	}, time.Minute, 5*time.Millisecond)
	db.Exec(t, `SELECT pg_terminate_backend(`+strconv.Itoa(pid)+`)`)
	require.NoError(t, <-changed)
	require.Zero(t, db.slot(t).ActivePID)
}
