package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// newDebeziumRig is a relay with the preset debezium; setup makes the table.
func newDebeziumRig(t *testing.T, more ...string) *badRig {
	t.Helper()
	db := testkit.Postgres(t)
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	client, err := kafkaclient.New(broker.Addrs(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.Create(t.Context(), kafkaclient.Topic{Name: "outbox.event.Order", Partitions: 3},
		kafkaclient.Topic{Name: "cdc-outbox.dead-letter", Partitions: 2}))
	r := &badRig{T: t, db: db, broker: broker, kafka: client, env: append(variables(t, db),
		"CDC_OUTBOX_KAFKA_BROKERS="+strings.Join(broker.Addrs(), ","), "CDC_OUTBOX_ROUTER_PRESET=debezium",
		"CDC_OUTBOX_ROUTER_DEBEZIUM_TOPIC_PREFIX=srv")}
	r.env = append(r.env, more...)
	return r
}

// Bug (setup): `setup --table` with the preset debezium refused and blamed keys that the preset does not read. Cost: a
// table created by hand.
func TestDebeziumPreset(t *testing.T) {
	t.Parallel()
	r := newDebeziumRig(t)
	res := invoke(t, r.env, "check")
	require.Equal(t, 3, res.code, res.all())
	require.Contains(t, res.stdout, `"aggregatetype" varchar(255) NOT NULL`, "the table to make is one as Debezium's")
	res = invoke(t, r.env, "setup", "--table")
	require.Equal(t, 0, res.code, res.all())
	for i := range 3 {
		r.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox VALUES ('00000000-0000-4000-8000-00000000000%d', 'Order', '%d',
			'Created', '{"secret": "%s"}')`, i, i, canary))
	}
	require.NoError(t, r.kafka.Delete(t.Context(), "outbox.event.Order"))
	res = invoke(t, r.env, "check")
	require.Contains(t, res.stdout, "topic outbox.event.Order: It does not exist.", "found by the rows' route column")
	require.NoError(t, r.kafka.Create(t.Context(), kafkaclient.Topic{Name: "outbox.event.Order", Partitions: 3}))
	res = invoke(t, r.env, "check")
	require.Equal(t, 0, res.code, res.all())

	c := start(t, r.env)
	c.awaitReady(http.StatusOK)
	require.NoError(t, r.kafka.Await(t.Context(), 3, "outbox.event.Order"))
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
	require.NotContains(t, c.text(), canary)
	for _, rec := range r.read("outbox.event.Order") {
		require.Equal(t, `{"secret": "`+canary+`"}`, string(rec.Value))
		require.Equal(t, "00000000-0000-4000-8000-00000000000"+string(rec.Key), headerOf(rec, "id"))
		require.Equal(t, "srv", headerOf(rec, "__debezium.context.connectorLogicalName"))
		require.Empty(t, headerOf(rec, "position"))
	}
	res = invoke(t, append(r.env, "CDC_OUTBOX_ROUTER_DEBEZIUM_ADDITIONAL=tenant:header"), "setup", "--table",
		"--dry-run")
	require.Equal(t, 2, res.code, res.all())
	require.Contains(t, res.stderr, "tenant")
	res = invoke(t, append(r.env, "CDC_OUTBOX_ROUTER_TOPIC=x"), "check")
	require.Equal(t, 2, res.code, "a key of the other preset: "+res.all())
}

// Letters of the preset: a route that is NULL, values that cannot be converted, and columns with names that want
// quotes.
//
// Bug (letters): With the preset debezium, `dead-letter retry --topic` could not fix a route that is NULL, which is its
// purpose. Cost: a row that cannot be retried.
func TestDebeziumDeadLetters(t *testing.T) {
	t.Parallel()
	r := newDebeziumRig(t, "CDC_OUTBOX_ROUTER_DEBEZIUM_HEADER_CONVERTER=json_with_schema",
		`CDC_OUTBOX_ROUTER_DEBEZIUM_COLUMNS_KEY=a:"b" ${x}`,
		"CDC_OUTBOX_ROUTER_DEBEZIUM_ADDITIONAL=Mixed Case:header:${y},shard:partition",
		"CDC_OUTBOX_ROUTER_DEBEZIUM_EXPAND_JSON=true", "CDC_OUTBOX_ROUTER_DEBEZIUM_VALUE_CONVERTER=json")
	r.db.Exec(t, `CREATE TABLE outbox (id text, aggregatetype text, "a:""b"" ${x}" text, type text, payload text,
		"Mixed Case" text, shard int)`)
	require.Equal(t, 0, invoke(t, r.env, "setup").code)
	secret := `{"secret": "` + canary + `"}`
	for _, row := range []string{
		`'e1', NULL, 'k', 't', '` + secret + `', 'm', 2`,
		`'e2', '../` + canary + `', 'k', 't', '` + secret + `', 'm', NULL`,
		`'e3', 'Order', 'k', 't', '{"secret": "` + canary + `", "n": 1e999}', 'm', 1`,
		`'e4', 'Order', 'k', 't', '` + secret + `', 'm', -1`,
	} {
		r.db.Exec(t, "INSERT INTO outbox VALUES ("+row+")")
	}
	list := r.deadLettered(4)
	for i, e := range list {
		require.Equal(t, fmt.Sprintf("e%d", i+1), e.ID)
		require.NotContains(t, fmt.Sprintf("%+v", e.Summary), canary)
	}
	for _, args := range [][]string{
		{"e1", "--topic=outbox.event.Order"},
		{"e2", "--set=aggregatetype=Order"},
		{"e3", "--set=payload={}"},
		{"e4", "--set=shard=0"},
	} {
		res := r.retry(args...)
		require.Equal(t, 0, res.code, res.all())
		require.NotContains(t, res.all(), canary)
	}
	got := map[string]*kgo.Record{}
	for _, rec := range r.read("outbox.event.Order") {
		got[headerOf(rec, "id")] = rec
		require.Equal(t, "k", string(rec.Key))
		require.Equal(t, `{"schema":{"type":"string","optional":true},"payload":"m"}`, headerOf(rec, "${y}"))
		require.NotEmpty(t, headerOf(rec, "retried"))
	}
	id := func(n int) string {
		return fmt.Sprintf(`{"schema":{"type":"string","optional":true},"payload":"e%d"}`, n)
	}
	require.Len(t, got, 4)
	require.EqualValues(t, 2, got[id(1)].Partition)
	require.EqualValues(t, 0, got[id(4)].Partition)
	require.Equal(t, `{"secret":"`+canary+`"}`, string(got[id(1)].Value))
	require.Equal(t, `{}`, string(got[id(3)].Value))
	require.Empty(t, r.list("--open"))
	require.Equal(t, deadletter.Retried, r.list()[0].State)
}
