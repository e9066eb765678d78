package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/replay"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// content is all of a record that a replay has to keep.
func content(r *kgo.Record) string {
	s := fmt.Sprintf("%q %q %v", r.Key, r.Value, r.Value == nil)
	// Those have the time of the commit, which a table does not know. A record of an old row has the time at which it
	// was sent, and the row's in a header, which is compared below.
	if key := string(r.Key); key != "untimed" && key != "{a,b}" && header(r, router.HeaderOriginalTimestamp) == "" {
		s += fmt.Sprint(r.Timestamp.UnixMilli())
	}
	for _, h := range r.Headers {
		if h.Key != "position" && h.Key != "replayed" {
			s += fmt.Sprintf(" %q=%q", h.Key, h.Value)
		}
	}
	return s
}

// hostile are rows in which nothing is what a hurried program expects.
const hostile = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers, created_at) VALUES
	('orders', E'it''s "{\\}" $1 \u00e4\U0001F600', 'a', '{"x": "\u2028 <&> \\ \" \n"}', '{"k": "v\"\\"}',
		'2026-01-01 00:00:00.000001+00'),
	('orders', '', 'b', 'null', NULL, '2026-01-01 00:00:00.000002+00'),
	('orders', E'\n\t', 'c%', NULL, '{}', '2026-01-01 01:00:00+01'),
	('orders', 'NULL', 'd', '1.50', '{"n": null, "o": {"a": [1, 2]}}', '1971-07-20 20:17:40+00'),
	('orders', '{a,b}', 'e', ('"' || repeat('x', 100000) || '"')::json, NULL, '-infinity'),
	('orders', 'untimed', 'f', '[]', NULL, NULL)`

// odd is an outbox with a name, an id and a timestamp that have to be quoted and cast.
const odd = `DROP TABLE IF EXISTS outbox; CREATE TABLE outbox (id char(40) DEFAULT gen_random_uuid()::text || '"',
	aggregate_type varchar(20), aggregate_id text,
	event_type text, payload json, headers json, created_at timestamptz DEFAULT clock_timestamp())`

// TestReplayMakesTheSameRecords: what the connector published and what replay reads from the table differ in position
// only.
func TestReplayMakesTheSameRecords(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events", "rebuilt")
	db.Exec(t, odd)
	r := invoke(t, b.env, "setup")
	require.Equal(t, 0, r.code, r.all())
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, strings.Replace(hostile, "'', 'b'", "'-', 'b'", 1))
	for i := range 30 { // several events of an aggregate in a transaction, and several transactions
		db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
			SELECT 'orders', (g %% 3)::text, 'n', json_build_object('t', %d, 'g', g) FROM generate_series(1, 7) g`, i))
	}
	streamed := b.records("orders.events", 216)

	r = invoke(t, b.env, "replay", "--all", "--topic=rebuilt", "--rate=0")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "rebuilt: 216 records published")
	replayed := b.records("rebuilt", 216)
	want, have := map[string]int{}, map[string]int{}
	lastOf, lastWas := map[string]string{}, map[string]string{}
	position := ""
	for i := range streamed {
		want[content(streamed[i])]++
		have[content(replayed[i])]++
		lastWas[string(streamed[i].Key)], lastOf[string(replayed[i].Key)] = content(streamed[i]), content(replayed[i])
		require.Greater(t, header(replayed[i], "position"), position, "ascending")
		position = header(replayed[i], "position")
		require.Less(t, position, header(streamed[0], "position"), "before every streamed one")
		require.NotEmpty(t, header(replayed[i], "replayed"))
	}
	for c, n := range want {
		require.Equal(t, n, have[c], "%.300s", c)
	}
	require.Equal(t, lastWas, lastOf, "each aggregate ends in the same state")
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}

func TestReplayChoosesRows(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	db.Exec(t, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at)
		SELECT ('00000000-0000-0000-0000-00000000000' || g)::uuid, CASE WHEN g < 5 THEN 'orders' ELSE 'users' END,
			(g % 2)::text, 'e', '{}',
			'2026-01-01T00:00:00Z'::timestamptz + g * interval '1 hour' FROM generate_series(1, 8) g`)
	for args, want := range map[string]int64{
		"--all":                  8,
		"--aggregate-type=users": 4,
		"--aggregate-type=orders --aggregate-type=users": 8,
		"--aggregate-id=1":                                   4,
		"--aggregate-id=1 --aggregate-type=orders":           2,
		"--since=2026-01-01T03:00:00Z":                       6,
		"--until=2026-01-01T03:00:00Z":                       2,
		"--since=2026-01-01T04:00:00+01:00 --aggregate-id=0": 3,
		"--id=00000000-0000-0000-0000-000000000003":          1,
		`--aggregate-id={"}\`:                                0,
	} {
		r := invoke(t, b.env, append([]string{"replay", "--dry-run", "--json"}, strings.Fields(args)...)...)
		require.Equal(t, 0, r.code, args+r.all())
		var s replay.Report
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &s))
		require.Equal(t, want, s.Rows, args)
	}
	for args, want := range map[string]string{
		"":                           "which rows",
		"--all --id=1":               "which rows",
		"--since=yesterday":          "--since is not a time",
		"--all --topic=a/b":          "--topic",
		"--all --dry-run --resume=x": "--resume",
		"--all --rate=-1":            "--rate",
	} {
		r := invoke(t, b.env, append([]string{"replay"}, strings.Fields(args)...)...)
		require.Equal(t, 2, r.code, args+r.all())
		require.Contains(t, r.stderr, want)
	}
	r := invoke(t, b.env, "replay", "--id=1")
	require.NotEqual(t, 0, r.code, "1 is not a uuid")
	n, err := b.kafka.Count(t.Context(), "orders.events")
	require.NoError(t, err)
	require.Zero(t, n, "a dry run publishes nothing")
}

// TestReplayGoesOnWhereItWasKilled: nothing is missing, and at most a batch comes twice.
func TestReplayGoesOnWhereItWasKilled(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "rebuilt")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	const rows, rate = 4000, 800 // seconds are left to kill it in
	db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
		SELECT 'orders', (g %% 5)::text, 'e', jsonb_build_object('n', g),
			now() + g * interval '1 microsecond' - interval '1 hour' FROM generate_series(1, %d) g`, rows))
	state := filepath.Join(t.TempDir(), "state")
	args := []string{"replay", "--all", "--topic=rebuilt", "--rate=800", "--resume=" + state}
	cmd := command(t.Context(), b.env, args...)
	require.NoError(t, cmd.Start())
	require.NoError(t, b.kafka.Await(t.Context(), 300, "rebuilt"))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	r := invoke(t, b.env, "replay", "--all", "--resume="+state)
	require.Equal(t, 2, r.code, "another topic is another run")

	began := time.Now()
	r = invoke(t, b.env, args...)
	require.Equal(t, 0, r.code, r.all())
	require.Greater(t, time.Since(began), 500*time.Millisecond, "the rate is kept")
	all := b.records("rebuilt", rows)
	require.LessOrEqual(t, len(all), rows+rate/4, "repeats at most a batch")
	last, seen, run := map[string]int{}, map[string]bool{}, header(all[0], "replayed")
	for _, rec := range all {
		var v struct{ N int }
		require.NoError(t, json.Unmarshal(rec.Value, &v))
		if id := header(rec, "id"); !seen[id] {
			seen[id] = true
			require.Greater(t, v.N, last[string(rec.Key)], "in order")
			last[string(rec.Key)] = v.N
		}
		require.Equal(t, run, header(rec, "replayed"), "one run")
	}
	require.Len(t, seen, rows)
	r = invoke(t, b.env, args...)
	require.Equal(t, 0, r.code, r.all())
	require.Len(t, b.records("rebuilt", int64(len(all))), len(all), "it was done")
	require.NoError(t, os.WriteFile(state, []byte("{}"), 0o600))
	require.Equal(t, 2, invoke(t, b.env, args...).code)
}

// TestReplayStopsAtARowThatIsNoEvent, or passes over it when asked to.
func TestReplayStopsAtARowThatIsNoEvent(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events")
	db.Exec(t, odd)
	db.Exec(t, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload) SELECT g::text, CASE g
		WHEN 3 THEN 'no/topic' ELSE 'orders' END, 'k', 'e', '{}' FROM generate_series(1, 5) g`)
	r := invoke(t, b.env, "replay", "--all", "--dry-run")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "orders.events: 4 records would be published")
	require.Regexp(t, `cannot be published: 3 +: .*illegal_topic`, r.stdout)
	require.Regexp(t, `run \S+: 4 rows would be published, 1 cannot be published\n$`, r.stdout)
	r = invoke(t, b.env, "replay", "--all")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "illegal_topic")
	require.Len(t, b.records("orders.events", 2), 2)
	r = invoke(t, b.env, "replay", "--all", "--skip-bad-rows")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "orders.events: 4 records published")
	require.Regexp(t, `not published: 3 +: .*illegal_topic`, r.stdout)
	require.Regexp(t, `run \S+: 4 rows published, 1 not published\n$`, r.stdout)
	r = invoke(t, b.env, "replay", "--all", "--topic=nowhere", "--timeout=2s")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, `topic "nowhere": The topic does not exist.`)
	require.Contains(t, r.stderr, "--create --topic nowhere --partitions")
	r = invoke(t, append(b.env, "CDC_OUTBOX_KAFKA_TOPICS_CREATE=true", "CDC_OUTBOX_KAFKA_TOPICS_PARTITIONS=2",
		"CDC_OUTBOX_KAFKA_TOPICS_REPLICATION_FACTOR=1"),
		"replay", "--id=1", "--topic=made")
	require.Equal(t, 0, r.code, r.all())
	require.Len(t, b.records("made", 1), 1)
	db.Exec(t, `INSERT INTO outbox (id) VALUES (NULL)`)
	require.Equal(t, 3, invoke(t, b.env, "replay", "--all").code, "a row without an id is not passed over in silence")
}
