//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// A relay that confirms what it has received: the proxy makes one of ours by raising the flush position of its status
// updates. The oracle must see the slot pass rows that are not in Kafka, and after a crash that they are lost. Without
// this test a green suite might mean a blind one.
func TestMutantConfirmingOnReceiveIsCaught(t *testing.T) {
	db := testkit.Postgres(t)
	via, dsn := postgresProxy(t, db)
	r := newRig(t, surroundings{db: db, viaDSN: dsn})
	_, broker := sharedKafka(t)
	via.RewriteStatus(func(s proxy.Status) proxy.Status {
		s.Flush, s.Apply = s.Write, s.Write
		return s
	})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	written(t, writers, 200)
	broker.Stall(true)
	t.Cleanup(func() { broker.Stall(false) })
	written(t, writers, 50)
	r.awaitConfirmed()
	// One more after that, about rows that cannot be in Kafka.
	before := confirmed(r)
	until(t, patience, 50*time.Millisecond, func() (bool, string) {
		return confirmed(r) > before, "nothing is confirmed"
	})
	p.Kill()
	broker.Reset()
	broker.Stall(false)
	writers.Stop()
	via.RewriteStatus(nil)
	// The table that remembers what was confirmed sees it first; the oracle has to see it without.
	refused := r.launch()
	code, err := refused.Wait(patience)
	require.NoError(t, err)
	require.Equal(t, 3, code, "the slot is beyond what was confirmed")
	r.start(map[string]string{"CDC_OUTBOX_POSTGRES_CHECKPOINT": "off"})
	require.NoError(t, r.oracle.AwaitCaughtUp(r.within(patience)))
	rep, err := r.oracle.Verdict(r.within(patience))
	require.NoError(t, err)
	t.Logf("caught: %v", rep)
	require.Positive(t, rep.Found[oracle.Overtaken])
	require.Positive(t, rep.Found[oracle.Lost])
	require.Zero(t, rep.Found[oracle.Phantom]+rep.Found[oracle.Corrupted]+rep.Found[oracle.Incorrect])
}
