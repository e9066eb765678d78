//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
)

// Kafka away for half a minute (12 s without soak), with a wal_sender_timeout far below that and a window that fills
// up: the session to Postgres survives, the slot stays where the last acknowledged transaction ended, memory stays
// flat, and it goes on automatically.
func TestBrokerUnavailable(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, "ALTER DATABASE "+db.Name+" SET wal_sender_timeout = '5s'")
	r := newRig(t, surroundings{db: db})
	_, broker := sharedKafka(t)
	p := r.start(map[string]string{"CDC_OUTBOX_WINDOW_RECORDS": "1000", "CDC_OUTBOX_HTTP_STALL": "5s"})
	writers := r.oracle.StartWriters(oracle.Load{})
	written(t, writers, 300)

	broker.Away(true)
	t.Cleanup(func() { broker.Away(false) })
	awaitNotReady(t, p, patience)
	awaitUnacknowledged(t, p, 900)
	before, rss := confirmed(r), p.Usage().RSS
	time.Sleep(soak(25*time.Second, 7*time.Second)) //waits:ok the fault lasts longer than wal_sender_timeout
	require.True(t, p.Running(), p.LogTail(10))
	require.Equal(t, before, confirmed(r), "nothing can have been acknowledged meanwhile")
	require.Less(t, p.Usage().RSS, rss+16<<20, "memory while Kafka is away; it was %s", mib(rss))
	t.Logf("not ready: %s", awaitNotReady(t, p, patience))
	reconnects, err := p.Metric(`cdc_outbox_reconnects_total{side="postgres"}`)
	require.NoError(t, err)
	require.Zero(t, reconnects, "the session to Postgres survives")

	broker.Away(false)
	r.Logf("written: %+v", writers.Stop())
	require.NoError(t, p.Ready(r.within(patience)))
	require.Zero(t, r.verdict().Duplicates, "the producer is idempotent and the process the same")
}

func confirmed(r *rig) oracle.LSN {
	r.Helper()
	at, err := r.oracle.Confirmed(r.Context())
	require.NoError(r, err)
	return at
}

// The connector dies between the append and its acknowledgement: the rows are repeated, and in order.
func TestBrokerAppendsWithoutResponse(t *testing.T) {
	r := newRig(t, surroundings{})
	_, broker := sharedKafka(t)
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	written(t, writers, 200)
	for range 3 {
		hold := broker.HoldProduceResponse()
		require.NoError(t, hold.Wait(r.within(patience)))
		r.pause(10*time.Millisecond, 300*time.Millisecond)
		p.Kill()
		hold.Release()
		p = r.start()
	}
	writers.Stop()
	rep := r.verdict()
	require.Positive(t, rep.Duplicates, "the held response was to a request that was repeated")
}
