package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// bed is a database and a Kafka stand-in for a connector.
type bed struct {
	*testing.T
	db    *testkit.Database
	kafka *kafkaclient.Client
	env   []string

	address string // of the stand-in
}

func newBed(t *testing.T, db *testkit.Database, topics ...string) *bed {
	t.Helper()
	kafka, address := newBroker(t, topics...)
	return &bed{T: t, db: db, kafka: kafka, address: address, env: append(variables(t, db),
		"CDC_OUTBOX_KAFKA_BROKERS="+address, "CDC_OUTBOX_MONITOR_INTERVAL=200ms")}
}

// newBroker starts a broker in this process that has the topics, of one partition each.
func newBroker(t *testing.T, topics ...string) (kafka *kafkaclient.Client, address string) {
	t.Helper()
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	kafka, err = kafkaclient.New(broker.Addrs())
	require.NoError(t, err)
	t.Cleanup(kafka.Close)
	for _, topic := range topics {
		require.NoError(t, kafka.Create(t.Context(), kafkaclient.Topic{Name: topic, Partitions: 1}))
	}
	return kafka, broker.Addrs()[0]
}

// records waits until the topic has n records, the ends of transactions not counted, and returns all that it has.
func (b *bed) records(topic string, n int64) []*kgo.Record {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for offsets := n; ; offsets++ { // another record, or an end that shows some, takes an offset
		require.NoError(b, b.kafka.Await(ctx, offsets, topic))
		var err error
		offsets, err = b.kafka.Count(ctx, topic)
		require.NoError(b, err)
		all, err := b.kafka.Read(ctx, topic)
		require.NoError(b, err)
		if int64(len(all)) >= n {
			return all
		}
	}
}

// awaitSessions waits until n more sessions have begun in a database, for what connects once for each check.
func awaitSessions(t *testing.T, db *testkit.Database, n int) {
	t.Helper()
	awaitChanges(t, db, n, "SELECT sessions::text FROM pg_stat_database WHERE datname = current_database()")
}

// awaitLooks waits until two sessions have each asked n more times, with a query that contains a text. What must not be
// found needs several looks.
func awaitLooks(t *testing.T, db *testkit.Database, n int, text string) {
	t.Helper()
	awaitChanges(t, db, 2*n+1, "SELECT CASE WHEN count(*) = 2 THEN min(query_start)::text ELSE '' END "+
		"FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "+
		"AND query LIKE '%"+text+"%'")
}

// awaitChanges waits until a query of one text has given n new ones.
func awaitChanges(t *testing.T, db *testkit.Database, n int, sql string) {
	t.Helper()
	conn, err := db.Server.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	changes, last := -1, ""
	require.Eventually(t, func() bool {
		var now string
		require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&now))
		if now != "" && now != last {
			changes, last = changes+1, now
		}
		return changes >= n
	}, 2*time.Minute, 10*time.Millisecond)
}
