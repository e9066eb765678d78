//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// A topic that does not exist is named, waited for, and used as soon as it is created; rows after it wait, none
// is passed over.
func TestWaitingForTopic(t *testing.T) {
	t.Parallel()
	r, kind, topic := plainRig(t, testkit.Postgres(t))
	p := r.start(map[string]string{"CDC_OUTBOX_HTTP_STALL": "2s"})
	r.insert(kind+"_missing", 1)
	r.insert(kind, 10)
	require.Eventually(t, func() bool {
		ready, why := p.IsReady()
		return !ready && strings.Contains(why, kind+"_missing.events")
	}, patience, 50*time.Millisecond, "readiness names the topic")
	require.NoError(t, r.kafka.Create(r.within(patience), kafkaclient.Topic{Name: kind + "_missing.events"}))
	require.NoError(t, r.kafka.Await(r.within(patience), 1, kind+"_missing.events"))
	require.NoError(t, r.kafka.Await(r.within(patience), 10, topic))
	require.NoError(t, p.Ready(r.within(patience)))
}

// A second instance on the same slot waits and takes over when the first one dies; it never ends the first one's
// session.
func TestWaitingForTheSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t, surroundings{})
	first := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	second := r.launch()
	t.Logf("standby: %s", awaitNotReady(t, second, patience, "the slot is held by"))
	written(t, writers, 500)
	require.True(t, second.Running(), second.LogTail(10))
	ready, _ := second.IsReady()
	require.False(t, ready)
	reconnects, err := first.Metric(`cdc_outbox_reconnects_total{side="postgres"}`)
	require.NoError(t, err)
	require.Zero(t, reconnects)
	first.Kill()
	require.NoError(t, second.Ready(r.within(patience)))
	r.awaitPublished(second, 100)
	writers.Stop()
	r.verdict()
}

// SIGTERM while Kafka is away: it does not wait for ever, and what was not acknowledged is sent by the next start.
func TestWaitingForKafkaEndsWithSIGTERM(t *testing.T) {
	r := newRig(t, surroundings{})
	_, broker := sharedKafka(t)
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	written(t, writers, 200)
	broker.Away(true)
	t.Cleanup(func() { broker.Away(false) })
	awaitUnacknowledged(t, p, 100)
	began := time.Now()
	code, err := p.Stop(soak(15*time.Second, patience))
	require.NoError(t, err)
	t.Logf("exit code %d after %v", code, time.Since(began).Round(time.Millisecond))
	broker.Away(false)
	writers.Stop()
	r.start()
	r.verdict()
}

// A fast shutdown of Postgres while Kafka is away: the walsender waits for its client to confirm the last WAL, which it
// cannot do; past the stall limit the connector releases it.
func TestWaitingForKafkaDoesNotDelayPostgres(t *testing.T) {
	db := testkit.DedicatedPostgres(t, postgres.Options{})
	r := newRig(t, surroundings{db: db})
	_, broker := sharedKafka(t)
	p := r.start(map[string]string{"CDC_OUTBOX_HTTP_STALL": "4s"})
	writers := r.oracle.StartWriters(oracle.Load{})
	written(t, writers, 200)
	broker.Away(true)
	t.Cleanup(func() { broker.Away(false) })
	awaitUnacknowledged(t, p, 100)
	writers.Stop()
	began := time.Now()
	require.NoError(t, db.Stop(r.within(soak(30*time.Second, patience)), postgres.Fast))
	t.Logf("stopped after %v", time.Since(began).Round(time.Millisecond))
	require.NoError(t, db.Start(r.within(patience)))
	broker.Away(false)
	require.NoError(t, p.Ready(r.within(patience)))
	r.verdict()
}

// A line to Postgres that has died without a word, under load and idle: noticed, and replaced.
func TestWaitingForDeadLine(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	db.Exec(t, "ALTER DATABASE "+db.Name+" SET wal_sender_timeout = '4s'")
	via, dsn := postgresProxy(t, db)
	r := newRig(t, surroundings{db: db, viaDSN: dsn})
	p := r.start()
	//waits:ok idle for longer than wal_sender_timeout: only keepalives, which must be answered within it
	time.Sleep(9 * time.Second)
	reconnects, err := p.Metric(`cdc_outbox_reconnects_total{side="postgres"}`)
	require.NoError(t, err)
	require.Zero(t, reconnects, "an idle session survives wal_sender_timeout")
	writers := r.oracle.StartWriters(oracle.Load{})
	written(t, writers, 200)
	via.Stall(true)
	//waits:ok the server gives up at 4 s; the connector cannot know
	time.Sleep(7 * time.Second)
	via.Stall(false)
	written(t, writers, 200)
	writers.Stop()
	require.Zero(t, r.verdict().Duplicates)
}
