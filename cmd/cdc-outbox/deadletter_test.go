package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// badRow is an INSERT that gives a bad row, and the flags that fix its letter.
type badRow struct {
	reason router.Reason
	id     string
	values string // of id, aggregate_type, aggregate_id, event_type, payload, headers, created_at
	mend   []string
}

const tooLarge = 70_000 // larger than the limit of its topic, and than what is taken before the topic is known

var badKinds = []badRow{
	{router.Unroutable, "u1", `'u1', NULL, 'k', 'created', '{"n": 1}', NULL, NULL`, []string{"--topic=orders.events"}},
	{
		router.IllegalTopic, "i1", `'i1', 'no/topic', 'k', 'created', '{"n": 2}', '{"a": "b"}', NULL`,
		[]string{"--set=aggregate_type=orders"},
	},
	{router.NullID, "", `NULL, 'orders', 'k', 'created', '{"n": 3}', NULL, NULL`, []string{"--set=id=n1"}},
	{router.NullKey, "n2", `'n2', 'orders', NULL, 'created', '{"n": 4}', NULL, NULL`, []string{"--key=k"}},
	{router.BadHeaders, "b1", `'b1', 'orders', 'k', 'created', '{"n": 5}', '[1]', NULL`, []string{"--null=headers"}},
	{
		router.ReservedHeader, "r1", `'r1', 'orders', 'k', 'created', '{"n": 6}', '{"id": "x"}', NULL`,
		[]string{"--null=headers"},
	},
	{
		router.HeadersTooLarge, "h1",
		`'h1', 'orders', 'k', 'created', '{"n": 7}', json_build_object('h', repeat('x', 70000)), NULL`,
		[]string{"--null=headers"},
	},
	{router.BadTimestamp, "t1", `'t1', 'orders', 'k', 'created', NULL, NULL, 'soon'`, []string{"--null=created_at"}},
	{
		router.TooLarge, "l1",
		fmt.Sprintf(`'l1', 'orders', 'k', 'created', ('"' || repeat('l', %d) || '"')::json, NULL, NULL`, tooLarge), nil,
	},
	// the column is renamed while it is inserted
	{router.MissingColumn, "m1", "", []string{"--set=event_type=created"}},
}

func (r badRow) sql() string {
	insert := `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, created_at) VALUES `
	if r.reason == router.MissingColumn {
		return `ALTER TABLE outbox RENAME COLUMN event_type TO kind;
			INSERT INTO outbox VALUES ('m1', 'orders', 'k', 'created', '{"n": 9}');
			ALTER TABLE outbox RENAME COLUMN kind TO event_type`
	}
	return insert + "(" + r.values + ")"
}

// badRig is a table whose columns take anything, and a broker whose topic takes little.
type badRig struct {
	*testing.T
	db     *testkit.Database
	broker *fakebroker.Broker
	kafka  *kafkaclient.Client
	env    []string
	good   int
}

func newBadRig(t *testing.T, delivery string) *badRig {
	t.Helper()
	db := testkit.Postgres(t)
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	client, err := kafkaclient.New(broker.Addrs(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.Create(t.Context(),
		kafkaclient.Topic{
			Name: "orders.events", Partitions: 2, Configs: map[string]string{"max.message.bytes": "2000"},
		},
		kafkaclient.Topic{Name: "cdc-outbox.dead-letter", Partitions: 3}))
	db.Exec(t, `CREATE TABLE outbox (id text, aggregate_type text, aggregate_id text, event_type text, payload json,
		headers json, created_at text)`)
	r := &badRig{T: t, db: db, broker: broker, kafka: client, env: append(variables(t, db),
		"CDC_OUTBOX_KAFKA_BROKERS="+strings.Join(broker.Addrs(), ","), "CDC_OUTBOX_MONITOR_INTERVAL=200ms",
		"CDC_OUTBOX_DELIVERY="+delivery)}
	require.Equal(t, 0, invoke(t, r.env, "setup").code)
	return r
}

// insertGood inserts a row that can be published.
func (r *badRig) insertGood() {
	r.good++
	r.db.Exec(r, fmt.Sprintf(`INSERT INTO outbox VALUES ('good%03d', 'orders', 'k', 'created', '{}')`, r.good))
}

// awaitConfirmed waits until the slot is past all rows so far.
func (r *badRig) awaitConfirmed(c *running) service.Status {
	r.Helper()
	c.awaitReady(http.StatusOK)
	var st service.Status
	require.Eventually(r, func() bool {
		_, body := c.get("/status")
		require.NoError(r, json.Unmarshal([]byte(body), &st))
		return int(st.Counts.Published+st.Counts.Skipped) >= r.good+len(badKinds) && st.OldestUnconfirmedSeconds == 0 &&
			st.Window.Records == 0
	}, 30*time.Second, 50*time.Millisecond)
	return st
}

func (r *badRig) read(topic string) []*kgo.Record {
	r.Helper()
	records, err := r.kafka.Read(r.Context(), topic)
	require.NoError(r, err)
	return records
}

// ids are the ids of the topic's records, by partition and offset.
func (r *badRig) ids(topic string) []string {
	var out []string
	for _, rec := range r.read(topic) {
		out = append(out, headerOf(rec, "id"))
	}
	return out
}

func headerOf(rec *kgo.Record, name string) string {
	for _, h := range rec.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func (r *badRig) list(args ...string) []deadletter.Entry {
	r.Helper()
	res := invoke(r.T, r.env, append([]string{"dead-letter", "list", "--json"}, args...)...)
	require.Equal(r, 0, res.code, res.all())
	var out []deadletter.Entry
	require.NoError(r, json.Unmarshal([]byte(res.stdout), &out))
	return out
}

// Every kind of bad row between good ones: the good ones are published in order, each bad one is in the dead-letter
// topic once, and a retry publishes it, corrected, with its id and position.
func TestDeadLetters(t *testing.T) {
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			r := newBadRig(t, delivery)
			c := start(t, append(r.env, "CDC_OUTBOX_ROUTER_ON_BAD_ROW=dead_letter"))
			c.awaitReady(http.StatusOK)
			r.insertGood()
			for _, bad := range badKinds {
				r.db.Exec(t, bad.sql())
				r.insertGood()
			}
			st := r.awaitConfirmed(c)
			require.EqualValues(t, len(badKinds), st.Counts.DeadLettered)
			_, metrics := c.get("/metrics")
			require.Contains(t, metrics, `cdc_outbox_dead_letters_total{reason="null_key"} 1`)
			require.Contains(t, metrics, `cdc_outbox_dead_letters_total{reason="bad_bytea"} 0`)
			c.awaitText(`"event_id":"i1"`)
			require.NotContains(t, c.text(), "no/topic")
			require.Equal(t, 0, c.stop(syscall.SIGTERM))

			got := r.ids("orders.events")
			require.Len(t, got, r.good)
			require.True(t, slices.IsSorted(got), got)
			entries := r.list()
			require.Len(t, entries, len(badKinds))
			for i, e := range entries {
				require.Equal(t, string(badKinds[i].reason), e.Reason, "in the order of the log")
				require.Equal(t, badKinds[i].id, e.ID)
				require.Equal(t, 1, e.Copies)
				require.Equal(t, deadletter.Open, e.State)
			}
			require.Len(t, r.list("--reason=null_key", "--reason=null_id"), 2)
			r.retryAll(entries)
		})
	}
}

func (r *badRig) retryAll(entries []deadletter.Entry) {
	t := r.T
	retry := func(args ...string) result {
		return invoke(t, r.env, append([]string{"dead-letter", "retry"}, args...)...)
	}
	refused := retry("--all", "--timeout=5s")
	require.Equal(t, 3, refused.code, "nothing is fixed: "+refused.all())
	require.Contains(t, refused.stdout, "0 of 10 dead letters published")
	require.Contains(t, refused.stdout, "--topic names another topic")
	typo := retry("i1", "--set=agregate_type=orders")
	require.Equal(t, 3, typo.code, typo.all())
	require.Contains(t, typo.stdout, "the row itself has no column agregate_type")
	for _, args := range [][]string{{"retry", "--reason=illegal_topik"}, {"list", "--reason=illegal_topik"}} {
		res := invoke(t, r.env, append([]string{"dead-letter"}, args...)...)
		require.Equal(t, 2, res.code, "nothing chosen is not everything done: "+res.all())
		require.Contains(t, res.stderr, "illegal_topic")
	}
	for _, e := range r.list() {
		require.Equal(t, deadletter.Open, e.State, "nothing was published, and that is known: %v", e)
	}
	require.Len(t, r.ids("orders.events"), r.good)

	larger := "2000000"
	_, err := r.kafka.Admin().AlterTopicConfigs(t.Context(),
		[]kadm.AlterConfig{{Name: "max.message.bytes", Value: &larger}}, "orders.events")
	require.NoError(t, err)
	for i, bad := range badKinds {
		args := append([]string{entries[i].Position}, bad.mend...)
		res := retry(append(args, "--dry-run")...)
		require.Equal(t, 0, res.code, res.all())
		require.Contains(t, res.stdout, "would publish")
		res = retry(args...)
		require.Equal(t, 0, res.code, res.all())
		res = retry(args...)
		require.Equal(t, 3, res.code, "twice: "+res.all())
		require.Contains(t, res.stdout, "--again")
	}
	retried := map[string]*kgo.Record{}
	for _, rec := range r.read("orders.events") {
		if headerOf(rec, "retried") != "" {
			require.NotContains(t, retried, headerOf(rec, "position"))
			retried[headerOf(rec, "position")] = rec
		}
	}
	require.Len(t, retried, len(badKinds), slices.Collect(maps.Keys(retried)))
	for i, bad := range badKinds {
		rec := retried[entries[i].Position]
		require.NotNil(t, rec, bad.reason)
		id := bad.id
		if id == "" {
			id = "n1"
		}
		require.Equal(t, id, headerOf(rec, "id"))
		require.Equal(t, "k", string(rec.Key))
		require.Equal(t, "created", headerOf(rec, "type"))
		switch bad.reason {
		case router.TooLarge:
			require.Len(t, rec.Value, tooLarge+2)
		case router.BadTimestamp:
			require.Nil(t, rec.Value, "a tombstone stays one")
		case router.IllegalTopic:
			require.Equal(t, `{"n": 2}`, string(rec.Value))
			require.Equal(t, "b", headerOf(rec, "a"))
		}
	}
	require.Empty(t, r.list("--open"))
	for _, e := range r.list() {
		require.Equal(t, deadletter.Retried, e.State)
	}
	res := retry("--all")
	require.Equal(t, 0, res.code, "nothing is left: "+res.all())
	require.Contains(t, res.stdout, "0 of 0")
	require.Equal(t, 0, retry("u1", "--topic=orders.events", "--again").code)
	require.Len(t, r.ids("orders.events"), r.good+len(badKinds)+1)

	shown := invoke(t, r.env, "dead-letter", "show", "i1")
	require.Equal(t, 0, shown.code, shown.all())
	require.Contains(t, shown.stdout, "illegal_topic")
	require.NotContains(t, shown.stdout, `"n": 2`)
	require.NotContains(t, shown.stdout, "no/topic")
	shown = invoke(t, r.env, "dead-letter", "show", "i1", "--payload")
	require.Contains(t, shown.stdout, `value: {"n": 2}`)
	require.Contains(t, shown.stdout, "column aggregate_type: no/topic")
	require.Equal(t, 2, invoke(t, r.env, "dead-letter", "show", "nobody").code)
}

// The dead-letter topic is as needed as any other where a policy leads there: while it is missing everything waits.
func TestCheckLooksForTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	r := newBadRig(t, "at_least_once")
	require.NoError(t, r.kafka.Delete(t.Context(), "cdc-outbox.dead-letter"))
	res := invoke(t, r.env, "check")
	require.NotContains(t, res.all(), "cdc-outbox.dead-letter")
	res = invoke(t, append(r.env, "CDC_OUTBOX_ROUTER_BAD_ROWS_NULL_KEY=dead_letter"), "check")
	require.Equal(t, 3, res.code, res.all())
	require.Contains(t, res.all(), "topic cdc-outbox.dead-letter: It does not exist.")
}

// skip passes over each bad row, and only over those.
func TestSkippedRows(t *testing.T) {
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			r := newBadRig(t, delivery)
			r.insertGood()
			for _, bad := range badKinds {
				r.db.Exec(t, bad.sql())
				r.insertGood()
			}
			c := start(t, append(r.env, "CDC_OUTBOX_ROUTER_ON_BAD_ROW=skip"))
			st := r.awaitConfirmed(c)
			require.EqualValues(t, len(badKinds), st.Counts.Skipped)
			require.Equal(t, 0, c.stop(syscall.SIGTERM))
			got := r.ids("orders.events")
			require.Len(t, got, r.good)
			require.True(t, slices.IsSorted(got), got)
			require.Empty(t, r.read("cdc-outbox.dead-letter"))
		})
	}
}

// Each start halts at the first row of the next group, with the groups before passed over: nothing is lost by going on
// in that way, and what was halted is there to be read again.
func TestEachGroupHalts(t *testing.T) {
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			r := newBadRig(t, delivery)
			r.insertGood()
			for _, bad := range badKinds {
				r.db.Exec(t, bad.sql())
				r.insertGood()
			}
			env := r.env
			var seen []router.Group
			for _, bad := range badKinds {
				group := bad.reason.Group()
				if slices.Contains(seen, group) {
					continue
				}
				seen = append(seen, group)
				c := start(t, env)
				at := "halted at event " + bad.id + ", LSN "
				if bad.id == "" {
					at = "halted at LSN " // a row whose id is NULL has nothing else to be named by
				}
				var why string
				require.Eventually(t, func() bool {
					_, why = c.get("/readyz")
					return strings.Contains(why, at)
				}, 30*time.Second, 50*time.Millisecond, "%s", bad.reason)
				require.Equal(t, 0, c.stop(syscall.SIGTERM))
				env = append(env, "CDC_OUTBOX_ROUTER_BAD_ROWS_"+strings.ToUpper(string(group))+"=skip")
			}
			require.Len(t, seen, len(router.Groups())-2, "all but two, which need a registry")
			c := start(t, env)
			c.awaitReady(http.StatusOK)
			require.NoError(t, r.kafka.Await(t.Context(), int64(r.good), "orders.events"))
			require.Equal(t, 0, c.stop(syscall.SIGTERM))
			require.True(t, slices.IsSorted(r.ids("orders.events")))
		})
	}
}
