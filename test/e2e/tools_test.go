//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// command runs another command of the binary in the rig's surroundings to its end.
func (r *rig) command(code int, args ...string) (stdout, stderr string) {
	r.Helper()
	return r.finished("", code, args...)
}

// commandOf runs a command of another version, which has to succeed, and returns what it prints.
func (r *rig) commandOf(binary string, args ...string) string {
	r.Helper()
	stdout, _ := r.finished(binary, 0, args...)
	return stdout
}

func (r *rig) finished(binary string, code int, args ...string) (stdout, stderr string) {
	r.Helper()
	env := maps.Clone(r.env)
	env["CDC_OUTBOX_HTTP_LISTEN"] = "127.0.0.1:1"
	p, err := process.Start(process.Options{Binary: binary, Env: env, Args: args})
	require.NoError(r, err)
	defer p.Close()
	got, err := p.Wait(patience)
	require.NoError(r, err, "%s", p.LogTail(5))
	require.Equal(r, code, got, "%v: %s%s", args, p.Stdout(), p.Log())
	return p.Stdout(), p.Log()
}

// committed reads a topic as a read_committed consumer does.
func (r *rig) committed(topic string, n int64) []*kgo.Record {
	r.Helper()
	client, err := r.kafka.Inside(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(r, err)
	defer client.Close()
	var all []*kgo.Record
	require.Eventually(r, func() bool {
		all, err = client.Read(r.within(patience), topic)
		require.NoError(r, err)
		return int64(len(all)) >= n
	}, patience, 100*time.Millisecond, "%d records in %s", n, topic)
	return all
}

func headerOf(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// ids counts the records of each id.
func ids(records []*kgo.Record) map[string]int {
	n := map[string]int{}
	for _, r := range records {
		n[headerOf(r, "id")+headerOf(r, "ce_id")]++
	}
	return n
}

// A slot is dropped and re-created, with rows in between. What no topic has is found and published, each once, whatever
// records look like.
func TestToolsRepair(t *testing.T) {
	const outbox = `CREATE TABLE outbox (id %s, aggregate_type text, aggregate_id text, event_type text, payload jsonb,
		headers jsonb, created_at timestamptz DEFAULT clock_timestamp())`
	const debezium = `CREATE TABLE outbox (id %s, aggregatetype text, aggregateid text, type text, payload jsonb)`
	text, bytes := "text DEFAULT gen_random_uuid()::text", "bytea DEFAULT decode(md5(random()::text), 'hex')"
	for name, c := range map[string]struct {
		table   string
		env     map[string]string
		columns string
		topic   string // of kind
	}{
		"uuid": {table: fmt.Sprintf(outbox, "uuid DEFAULT gen_random_uuid()")},
		"bytes, exactly once": {
			table: fmt.Sprintf(outbox, bytes), env: map[string]string{"CDC_OUTBOX_DELIVERY": "exactly_once"},
		},
		"envelope": {
			table: fmt.Sprintf(outbox, text), env: map[string]string{"CDC_OUTBOX_ROUTER_FORMAT": "envelope"},
		},
		"CloudEvents, binary": {
			table: fmt.Sprintf(outbox, text),
			env: map[string]string{
				"CDC_OUTBOX_ROUTER_FORMAT": "cloudevents_binary", "CDC_OUTBOX_ROUTER_CLOUDEVENTS_SOURCE": "/s",
			},
		},
		"CloudEvents, JSON": {
			table: fmt.Sprintf(outbox, text),
			env: map[string]string{
				"CDC_OUTBOX_ROUTER_FORMAT": "cloudevents_structured", "CDC_OUTBOX_ROUTER_CLOUDEVENTS_SOURCE": "/s",
			},
		},
		"debezium": {
			table: fmt.Sprintf(debezium, bytes),
			env: map[string]string{
				"CDC_OUTBOX_ROUTER_PRESET": "debezium", "CDC_OUTBOX_ROUTER_DEBEZIUM_TOPIC_PREFIX": "s",
			}, columns: "aggregatetype, aggregateid, type, payload", topic: "outbox.event.%s",
		},
		"debezium, JSON headers": {
			table:   fmt.Sprintf(debezium, "uuid DEFAULT gen_random_uuid()"),
			columns: "aggregatetype, aggregateid, type, payload", topic: "outbox.event.%s",
			env: map[string]string{
				"CDC_OUTBOX_ROUTER_PRESET": "debezium", "CDC_OUTBOX_ROUTER_DEBEZIUM_TOPIC_PREFIX": "s",
				"CDC_OUTBOX_ROUTER_DEBEZIUM_HEADER_CONVERTER": "json",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.columns == "" {
				c.columns, c.topic = "aggregate_type, aggregate_id, event_type, payload", "%s.events"
			}
			db := testkit.Postgres(t)
			db.Exec(t, c.table)
			cluster, _ := sharedKafka(t)
			kind := testkit.Name(t)
			topic := fmt.Sprintf(c.topic, kind)
			require.NoError(t, cluster.Create(within(t, patience), kafkaclient.Topic{Name: topic, Partitions: 2}))
			r := &rig{T: t, db: db, kafka: cluster, began: time.Now(), env: map[string]string{
				"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
				"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": cluster.Addrs()[0],
			}}
			maps.Copy(r.env, c.env)
			insert := func() {
				db.Exec(t,
					fmt.Sprintf(
						`INSERT INTO outbox (%s) SELECT '%s', (g %% 3)::text, 'e', '{"a": 1}'
							FROM generate_series(1, 10) g`, c.columns, kind,
					))
			}
			p := r.start()
			insert()
			r.committed(topic, 10)
			code, err := p.Stop(patience)
			require.NoError(t, err)
			require.Zero(t, code)
			r.awaitSlotFree()
			db.Exec(t, `SELECT pg_drop_replication_slot('`+db.Slot+`')`)
			insert()
			db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
			r.command(0, "slot", "accept")
			// What a transaction that was aborted has left in the topic is not there.
			abort(t, r, topic, "SELECT string_agg(id::text, ',') FROM outbox")
			r.start()
			insert()
			r.committed(topic, 20)
			out, _ := r.command(0, "repair", "--dry-run", "--json")
			require.Contains(t, out, `"missing": 10`)
			r.command(0, "repair")
			out, _ = r.command(0, "repair", "--json")
			require.Contains(t, out, `"missing": 0`)
			all := r.committed(topic, 30)
			require.Len(t, all, 30)
			require.Len(t, ids(all), 30, "each once")
		})
	}
}

// abort writes records with these ids in a transaction that is aborted.
func abort(t *testing.T, r *rig, topic, list string) {
	t.Helper()
	var text string
	require.NoError(t, connect(t, r.db.DSN).QueryRow(t.Context(), list).Scan(&text))
	client, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.Addrs()[0]), kgo.TransactionalID(testkit.Name(t)))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.BeginTransaction())
	for id := range strings.SplitSeq(text, ",") {
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{
			Topic: topic, Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}},
		}).FirstErr())
	}
	require.NoError(t, client.EndTransaction(t.Context(), kgo.TryAbort))
}

// Where Kafka removes records, what is not there proves nothing.
func TestToolsRepairWithoutProof(t *testing.T) {
	r, kind, topic := plainRig(t, testkit.Postgres(t))
	r.insert(kind, 30) // before the slot: no topic has them
	r.start()
	r.insert(kind, 30)
	require.NoError(t, r.kafka.Await(r.within(patience), 30, topic))
	admin := r.kafka.Admin()
	cleanUp := func(policy string) {
		_, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
			{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy},
		}, topic)
		require.NoError(t, err)
		until(t, patience, 20*time.Millisecond, func() (bool, string) { // the broker hears of it a moment later
			configs, err := admin.DescribeTopicConfigs(t.Context(), topic)
			require.NoError(t, err)
			return slices.ContainsFunc(configs[0].Configs, func(c kadm.Config) bool {
				return c.Key == "cleanup.policy" && c.MaybeValue() == policy
			}), "the policy is not yet " + policy
		})
	}
	cleanUp("compact")
	out, _ := r.command(0, "repair", "--dry-run")
	require.Contains(t, out, "60 rows, 0 of them not in Kafka")
	require.Contains(t, out, "30 rows are superseded", "by later rows of their keys")
	cleanUp("delete")
	offsets := kadm.Offsets{}
	for p := range int32(3) {
		offsets.AddOffset(topic, p, 1, -1)
	}
	_, err := admin.DeleteRecords(t.Context(), offsets)
	require.NoError(t, err)
	_, said := r.command(3, "repair")
	require.Contains(t, said, "its older records were removed")
	require.Contains(t, said, "Ask consumers", "what is left is not much newer, so no --since helps")
	n, err := r.kafka.Count(t.Context(), topic)
	require.NoError(t, err)
	require.EqualValues(t, 30, n, "the ends say that nothing was published")
	r.command(0, "repair", "--since="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	out, said = r.command(0, "repair", "--yes-publish-twice")
	require.Contains(t, out, "33 published again")
	require.Contains(t, said, "its older records were removed")

	// An open gap, of which repair chooses the time, and partitions without any record.
	r.db.Exec(t, `INSERT INTO cdc_outbox_gaps (slot, cause, what, system_id, from_lsn, from_at, to_lsn, to_at)
		VALUES ('`+r.db.Slot+`', 'slot_recreated', 'the slot was made again', '7', '0/10', now(), '0/20', now())`)
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	_, err = admin.DeleteRecords(t.Context(), ends.Offsets())
	require.NoError(t, err)
	out, said = r.command(3, "repair")
	require.Contains(t, out, "60 of them may have been published")
	require.Contains(t, said, "its older records were removed")
	n, err = r.kafka.Count(t.Context(), topic)
	require.NoError(t, err)
	require.EqualValues(t, 63, n, "the ends say that nothing was published")
}

// A window is published to a fresh topic, and from there a consumer that knows nothing gets to the same state; also
// from what was archived. The versions of Postgres at the ends, both presets.
func TestToolsReplayAndArchive(t *testing.T) {
	for version, preset := range map[string]string{"14": "outbox", "18": "debezium"} {
		t.Run("PostgreSQL "+version+", "+preset, func(t *testing.T) {
			db := testkit.Postgres(t, version)
			r, kind, topic := plainRig(t, db)
			r.env["CDC_OUTBOX_ROUTER_PRESET"] = preset
			columns := "aggregate_type, aggregate_id, event_type, payload, created_at"
			if preset == "debezium" {
				db.Exec(t,
					`DROP TABLE outbox; CREATE TABLE outbox (id uuid DEFAULT gen_random_uuid(), aggregatetype text,
						aggregateid text, type text, payload jsonb, created_at timestamp(3) NOT NULL)`)
				columns, topic = "aggregatetype, aggregateid, type, payload, created_at", "outbox.event."+kind
				maps.Copy(r.env, map[string]string{
					"CDC_OUTBOX_ROUTER_DEBEZIUM_TOPIC_PREFIX":      "s",
					"CDC_OUTBOX_ROUTER_DEBEZIUM_COLUMNS_TIMESTAMP": "created_at",
					"CDC_OUTBOX_ROUTER_DEBEZIUM_POSITION_HEADER":   "true",
				})
				require.NoError(t, r.kafka.Create(within(t, patience), kafkaclient.Topic{
					Name: topic, Partitions: 3,
				}))
			}
			fresh := []string{kind + ".window", kind + ".archive", kind + ".position"}
			for _, name := range fresh {
				require.NoError(t, r.kafka.Create(within(t, patience), kafkaclient.Topic{
					Name: name, Partitions: 1,
				}))
			}
			r.start()
			began := time.Now().UTC().Add(-48 * time.Hour).Truncate(time.Hour)
			db.Exec(t,
				fmt.Sprintf(
					`INSERT INTO outbox (%s) SELECT '%s', (g %% 7)::text, 'e', jsonb_build_object('n', g, 'x', 1.50),
						'%s'::timestamptz + g * interval '1 minute' FROM generate_series(1, 600) g`,
					columns, kind, began.Format(time.RFC3339)))
			streamed := r.committed(topic, 600)
			r.awaitConfirmed() // what is not confirmed is not pruned
			window := []string{
				"--since=" + began.Add(100*time.Minute).Format(time.RFC3339),
				"--until=" + began.Add(400*time.Minute).Format(time.RFC3339),
			}
			r.command(0, append([]string{"replay", "--rate=0", "--topic=" + fresh[0]}, window...)...)
			want := map[string]string{}
			for _, rec := range streamed {
				want[headerOf(rec, "id")] = plain(rec)
			}
			state, last := map[string]float64{}, 0.0
			replayed := r.committed(fresh[0], 300)
			require.Len(t, replayed, 300)
			for _, rec := range replayed {
				require.Equal(t, want[headerOf(rec, "id")], plain(rec))
				var v struct{ N float64 }
				require.NoError(t, json.Unmarshal(rec.Value, &v))
				require.Greater(t, v.N, last, "in order")
				last, state[string(rec.Key)] = v.N, v.N
			}
			require.Len(t, ids(replayed), 300, "no duplicates")
			for key, n := range state {
				require.Greater(t, n, 392.0, "the last of %s", key)
			}
			place := map[string]string{}
			for _, rec := range streamed {
				place[headerOf(rec, "id")] = headerOf(rec, "position")
			}
			from, to := place[headerOf(replayed[0], "id")], place[headerOf(replayed[299], "id")]
			r.command(0, "replay", "--rate=0", "--topic="+fresh[2], "--from-topic="+topic, "--from-position="+from,
				"--to-position="+to)
			placed := r.committed(fresh[2], 300)
			require.Len(t, placed, 300)
			require.Equal(t, ids(replayed), ids(placed))
			for _, rec := range placed {
				require.Equal(t, want[headerOf(rec, "id")], plain(rec))
			}
			dir := t.TempDir()
			r.command(0, "prune", "--older-than=1h", "--archive="+dir, "--pause=0s")
			files, err := filepath.Glob(filepath.Join(dir, "*.zst"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			r.command(0, append([]string{"replay", "--rate=0", "--topic=" + fresh[1], "--from-archive=" + files[0]},
				window...)...)
			back := r.committed(fresh[1], 300)
			require.Len(t, back, 300)
			for i := range back {
				require.Equal(t, plain(replayed[i]), plain(back[i]))
			}
		})
	}
}

// plain is what of a record a replay keeps. The headers that Debezium adds name the run of the connector.
func plain(r *kgo.Record) string {
	s := fmt.Sprintf("%q %q", r.Key, r.Value)
	at := fmt.Sprintf(" %d", r.Timestamp.UnixMilli())
	for _, h := range r.Headers {
		if h.Key == router.HeaderOriginalTimestamp {
			at = "" // the record has the time at which it was sent
		}
		if h.Key != "position" && h.Key != "replayed" && !strings.HasPrefix(h.Key, "__debezium") {
			s += fmt.Sprintf(" %s=%q", h.Key, h.Value)
		}
	}
	return s + at
}

// Rows are published again, deleted and archived, while writers write late and early and the relay is killed: what the
// connector publishes stays in order and complete, and nothing that is not in Kafka is deleted.
func TestToolsBesideRelayUnderLoad(t *testing.T) {
	r, kind, topic := plainRig(t, testkit.Postgres(t))
	p := r.start()
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var committed atomic.Int64
	var mu sync.Mutex
	last := map[string]int{} // per key, in the order of commits: a writer has its own keys
	for w := range 3 {
		conn := connect(t, r.db.DSN)
		writers.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				_, err := conn.Exec(context.Background(), fmt.Sprintf(`BEGIN;
					INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at)
					SELECT ('00000000-0000-0000-%04d-' || lpad((%[2]d * 10 + g)::text, 12, '0'))::uuid, '%[3]s',
						'%[1]d', 'e', jsonb_build_object('n', %[2]d * 10 + g),
						now() - interval '2 days' + %[2]d * interval '1 second'
					FROM generate_series(0, 4) g; SELECT pg_sleep(%[4]f); COMMIT`,
					w, i, kind, 0.005+0.01*float64(w*(i%4))))
				if err != nil {
					t.Error(err)
					return
				}
				committed.Add(5)
				mu.Lock()
				last[fmt.Sprint(w)] = i*10 + 4
				mu.Unlock()
			}
		})
	}
	finish := sync.OnceFunc(func() { close(stop); writers.Wait() })
	defer finish() // before the writers' connections are closed
	var deleted int64
	for range soak(12, 2) {
		r.command(0, "replay", "--aggregate-type="+kind, "--until="+time.Now().UTC().Format(time.RFC3339),
			"--rate=2000")
		p.Kill()
		p = r.start()
		out, _ := r.command(0, "prune", "--older-than=1d", "--pause=0s", "--batch=200", "--archive="+t.TempDir(),
			"--json")
		var report []struct{ Deleted int64 }
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		deleted += report[0].Deleted
	}
	finish()
	require.Positive(t, deleted)
	require.Eventually(t, func() bool {
		ids := map[string]bool{} // without repeats after kills
		for _, rec := range r.committed(topic, 0) {
			if headerOf(rec, "replayed") == "" {
				ids[headerOf(rec, "id")] = true
			}
		}
		return int64(len(ids)) >= committed.Load()
	}, patience, 500*time.Millisecond)
	seen, high := map[string]bool{}, map[string]int{}
	repeats, again := 0, 0
	for _, rec := range r.committed(topic, 0) {
		if headerOf(rec, "replayed") != "" {
			again++
			continue
		}
		var v struct{ N int }
		require.NoError(t, json.Unmarshal(rec.Value, &v))
		if id := headerOf(rec, "id"); !seen[id] {
			seen[id] = true
			require.Greater(t, v.N, high[string(rec.Key)], "first appearances are in order")
			high[string(rec.Key)] = v.N
		} else {
			repeats++
		}
	}
	t.Logf("%d rows committed, %d deleted, %d replayed, %d repeated after kills", committed.Load(), deleted, again,
		repeats)
	require.EqualValues(t, committed.Load(), len(seen), "all that was committed was published by the connector")
	require.Equal(t, last, high)
	require.Positive(t, again)
	require.EqualValues(t, committed.Load()-deleted, count(t, r.db.DSN, "SELECT count(*) FROM outbox"))
}

func count(t *testing.T, dsn, sql string) (n int64) {
	t.Helper()
	require.NoError(t, connect(t, dsn).QueryRow(t.Context(), sql).Scan(&n))
	return n
}
