//go:build interop

package interop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

func TestMain(m *testing.M) {
	testkit.AtEnd(process.Clean)
	testkit.Main(m)
}

const (
	rows       = 3000
	partitions = 7
)

// table has what a client may get wrong: NULL and empty values, a large one, keys of every script, headers that are
// null, empty and not ASCII. Each key has three rows on average, so that a wrong order shows.
const table = `
	CREATE TABLE outbox (seq int PRIMARY KEY, id uuid NOT NULL DEFAULT gen_random_uuid(), aggregate_type text NOT NULL,
		aggregate_id text NOT NULL, event_type text NOT NULL, payload text, headers jsonb,
		created_at timestamptz NOT NULL);
	CREATE PUBLICATION interop FOR TABLE outbox WITH (publish = 'insert');
	SELECT pg_create_logical_replication_slot('interop_' || codec || '_' || delivery, 'pgoutput')
		FROM unnest('{none,gzip,snappy,lz4,zstd}'::text[]) codec,
			unnest('{at_least_once,exactly_once}'::text[]) delivery`

const load = `
	INSERT INTO outbox (seq, aggregate_type, aggregate_id, event_type, payload, headers, created_at)
	SELECT n, 'any', CASE n %% 5 WHEN 0 THEN 'order-' || k WHEN 1 THEN md5(k::text) WHEN 2 THEN '🧾 ' || k
			WHEN 3 THEN k::text ELSE repeat('ключ', 40) || k END,
		'type ' || n %% 3,
		CASE WHEN n %% 37 = 0 THEN NULL WHEN n %% 41 = 0 THEN '' WHEN n = 1500 THEN repeat('large ', 150000)
			ELSE repeat('Zoë ' || n || ' ', n %% 50) END,
		CASE WHEN n %% 7 = 0 THEN NULL
			ELSE jsonb_build_object('empty', '', 'null', NULL, 'größe', n, 'list', '[1, 2]'::jsonb) END,
		timestamptz '2026-01-02 03:04:05Z' + n * interval '1001 ms'
	FROM (SELECT n, n %% 1100 AS k FROM generate_series(%d, %d) n) rows`

// want is a row as it has to arrive.
type want struct {
	Seq               int
	ID, Key, Type     string
	Payload           *string
	Empty, Size, List *string // headers
	Millis            int64
}

// TestClients: every client sees the same records, and these are the rows.
func TestClients(t *testing.T) {
	ctx, db, c := t.Context(), testkit.Postgres(t), cluster(t)
	conn, err := pgx.Connect(ctx, db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	for _, statement := range strings.Split(table, ";") {
		_, err = conn.Exec(ctx, statement)
		require.NoError(t, err)
	}
	for from := 1; from <= rows; from += 100 { // transactions, so that a kill leaves some
		_, err = conn.Exec(ctx, fmt.Sprintf(load, from, from+99))
		require.NoError(t, err)
	}
	wanted := wantedOf(t, conn)
	clients := foreign(t)
	chosen := byJava(t, c, wanted)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, delivery := range []string{"at_least_once", "exactly_once"} {
			t.Run(codec+" "+delivery, func(t *testing.T) {
				topic := "interop." + codec + "." + delivery
				require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: topic, Partitions: partitions}))
				relay(t, conn, db, c, codec, delivery, topic)
				seen := reference(ctx, t, c, topic)
				judge(t, seen, wanted, chosen, delivery == "exactly_once")
				for _, client := range clients {
					got := client.dump(ctx, t, strings.Join(c.Addrs(), ","), topic, len(seen))
					require.Len(t, got, len(seen), client.name)
					for i := range seen {
						require.Equal(t, seen[i], got[i], "%s, partition %d, offset %d", client.name,
							seen[i].Partition, seen[i].Offset)
					}
				}
				t.Logf("%d records of %d rows, the same for %d clients", len(seen), rows, len(clients)+1)
			})
		}
	}
}

func cluster(t *testing.T) *kafka.Cluster {
	t.Helper()
	c, err := kafka.Start(t.Context(), kafka.Options{Settings: map[string]string{
		"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func wantedOf(t *testing.T, conn *pgx.Conn) map[string]want {
	t.Helper()
	found, err := conn.Query(t.Context(), `SELECT seq, id::text, aggregate_id, event_type, payload, headers->>'empty',
		headers->>'größe', headers->>'list', (extract(epoch FROM created_at) * 1000)::bigint FROM outbox`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[want])
	require.NoError(t, err)
	require.Len(t, all, rows)
	byID := map[string]want{}
	for _, w := range all {
		byID[w.ID] = w
	}
	return byID
}

// byJava is the partition that Java's producer chooses for each key.
func byJava(t *testing.T, c *kafka.Cluster, wanted map[string]want) map[string]int32 {
	t.Helper()
	const topic = "interop.java"
	require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{Name: topic, Partitions: partitions}))
	chosen := map[string]int32{}
	for _, w := range wanted {
		chosen[w.Key] = -1
	}
	keys := slices.Sorted(maps.Keys(chosen))
	require.Greater(t, len(keys), 1000)
	var in strings.Builder
	for _, k := range keys {
		in.WriteString(*encoded([]byte(k)) + "\n")
	}
	command := append(java(t, javaNewest, "Partitions.java"), strings.Join(c.Addrs(), ","), topic)
	out := run(t.Context(), t, nil, []byte(in.String()), command[0], command[1:]...)
	lines := strings.Fields(string(out))
	require.Len(t, lines, len(keys))
	for i, k := range keys {
		n, err := strconv.Atoi(lines[i])
		require.NoError(t, err)
		chosen[k] = int32(n)
	}
	return chosen
}

// relay publishes the rows to a topic, in three starts of which two are killed.
func relay(t *testing.T, conn *pgx.Conn, db *testkit.Database, c *kafka.Cluster, codec, delivery, topic string) {
	t.Helper()
	slot := "interop_" + codec + "_" + delivery
	env := map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION": "interop",
		"CDC_OUTBOX_KAFKA_BROKERS":        strings.Join(c.Addrs(), ","), "CDC_OUTBOX_KAFKA_COMPRESSION": codec,
		"CDC_OUTBOX_DELIVERY": delivery, "CDC_OUTBOX_ROUTER_TOPIC": topic, "CDC_OUTBOX_WINDOW_RECORDS": "200",
	}
	for _, part := range []int64{rows / 3, 2 * rows / 3} {
		p := begin(t, env)
		require.NoError(t, c.Await(t.Context(), part, topic))
		p.Kill()
	}
	p := begin(t, env)
	require.Eventually(t, func() bool {
		var left bool
		err := conn.QueryRow(t.Context(), `SELECT confirmed_flush_lsn < (SELECT max(confirmed) FROM
			(SELECT pg_current_wal_lsn() AS confirmed) now) AND active FROM pg_replication_slots WHERE slot_name = $1`,
			slot).Scan(&left)
		require.NoError(t, err)
		ready, _ := p.IsReady()
		return !left && ready
	}, time.Minute, 100*time.Millisecond, "%s", p.LogTail(5))
	code, err := p.Stop(10 * time.Second)
	require.NoError(t, err)
	require.Zero(t, code)
}

func begin(t *testing.T, env map[string]string) *process.Process {
	t.Helper()
	p, err := process.Start(process.Options{Env: env})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// judge compares the records with the rows.
func judge(t *testing.T, seen []record, wanted map[string]want, chosen map[string]int32, once bool) {
	t.Helper()
	last := map[string]int{} // row of each key that appeared last for the first time
	known := map[string]bool{}
	for _, r := range seen {
		id := r.header(t, "id")
		w, is := wanted[id]
		require.True(t, is, "a record of no row: %q", id)
		require.False(t, once && known[id], "twice: %q", id)
		require.Equal(t, w.Key, decoded(t, r.Key))
		require.Equal(t, chosen[w.Key], r.Partition, "key %q", w.Key)
		require.Equal(t, w.Millis, r.Timestamp)
		require.Equal(t, digest(bytesOf(w.Payload)), r.Value)
		require.Equal(t, w.Type, r.header(t, "type"))
		for name, text := range map[string]*string{"empty": w.Empty, "größe": w.Size, "list": w.List} {
			if text != nil {
				require.Equal(t, *text, r.header(t, name), name)
			}
		}
		if !known[id] {
			known[id] = true
			require.Greater(t, w.Seq, last[w.Key], "the rows of a key in their order")
			last[w.Key] = w.Seq
		}
	}
	require.Len(t, known, len(wanted), "rows that were published")
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}
