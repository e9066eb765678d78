package setup

import (
	"context"
	"fmt"
	"testing"

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
