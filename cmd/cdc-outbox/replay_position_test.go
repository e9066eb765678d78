package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/archive"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// put writes records into the topic that no connector made.
func (b *bed) put(records ...*kgo.Record) {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.variable("CDC_OUTBOX_KAFKA_BROKERS")))
	require.NoError(b, err)
	defer client.Close()
	require.NoError(b, client.ProduceSync(b.Context(), records...).FirstErr())
}

func (b *bed) variable(name string) (value string) {
	for _, e := range b.env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// TestReplayByPosition: what lies between two positions of the log, and nothing else, in the order of the log; whatever
// else is in the topic.
func TestReplayByPosition(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events", "again", "killed", "lone", "foreign.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	c := start(t, b.env)
	c.awaitReady(200)
	for i := range 60 { // of random ids and one time: only the topic knows the order
		db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
			SELECT 'orders', (g %% 3)::text, 'e', json_build_object('t', %d, 'g', g), '2026-01-01'
				FROM generate_series(1, 10) g`, i))
	}
	all := b.records("orders.events", 600)
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
	at := func(i int) string { return header(all[i], "position") }
	lsn := func(i int) string {
		p, err := offsets.ParsePosition(at(i))
		require.NoError(t, err)
		return p.Commit.String()
	}
	// A repeat as after a crash, another producer's record, one without a position, and one of a replay.
	var more []*kgo.Record
	for _, r := range all[395:400] {
		more = append(more, &kgo.Record{Topic: "orders.events", Key: r.Key, Value: r.Value, Headers: r.Headers})
	}
	alien := func(id, position string) *kgo.Record {
		return &kgo.Record{
			Topic: "orders.events", Headers: []kgo.RecordHeader{
				{Key: "id", Value: []byte(id)}, {Key: "position", Value: []byte(position)},
			},
		}
	}
	b.put(append(more, &kgo.Record{
		Topic: "orders.events", Value: []byte("x"),
	}, alien("no-uuid\x00", "7fffffffffffffff-00000000"))...)

	same := func(from, to int, got []*kgo.Record) {
		t.Helper()
		require.Len(t, got, to-from)
		for i, r := range got {
			require.Equal(t, content(all[from+i]), content(r), "%d", i)
		}
	}
	r := invoke(t, b.env, "replay", "--from-position="+at(105), "--to-position="+at(407), "--topic=again", "--rate=0")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stderr, "5 records of the window were repeats")
	same(105, 408, b.records("again", 303))
	r = invoke(t, b.env, "replay", "--from-position="+lsn(50), "--to-position="+lsn(50), "--aggregate-id=1",
		"--dry-run")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "4 records would be published", "one transaction, one aggregate: "+r.all())
	r = invoke(t, b.env, "replay", "--from-position=7000000000000000-00000000", "--topic=again")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "1 events of the window are not in the table any more")

	// Killed and continued, in a topic of its own.
	state := filepath.Join(t.TempDir(), "state")
	args := []string{
		"replay", "--to-position=" + at(599), "--from-topic=orders.events", "--topic=killed", "--rate=400",
		"--resume=" + state,
	}
	cmd := command(t.Context(), b.env, args...)
	require.NoError(t, cmd.Start())
	require.NoError(t, b.kafka.Await(t.Context(), 150, "killed"))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	r = invoke(t, b.env, args...)
	require.Equal(t, 0, r.code, r.all())
	killed := b.records("killed", 600)
	require.LessOrEqual(t, len(killed), 700)
	first, seen := []*kgo.Record{}, map[string]bool{}
	for _, rec := range killed {
		if id := header(rec, "id"); !seen[id] {
			seen[id] = true
			first = append(first, rec)
		}
	}
	same(0, 600, first)

	// Into the topics that are read: what is published there is not read again.
	r = invoke(t, b.env, "replay", "--from-position="+at(590), "--to-position="+at(599))
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "orders.events: 10 records published")
	r = invoke(t, b.env, "replay", "--from-position="+at(590), "--to-position="+at(599), "--dry-run")
	require.Contains(t, r.stdout, "orders.events: 10 records would be published")

	_, err := b.kafka.Admin().DeleteRecords(t.Context(), kadm.Offsets{
		"orders.events": {0: {Topic: "orders.events", Partition: 0, At: 100}},
	})
	require.NoError(t, err)
	r = invoke(t, b.env, "replay", "--from-position="+at(50), "--dry-run")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "--from-position "+at(100))
	for args, want := range map[string]string{
		"--from-position=1": "--from-position is not a position", "--from-position=0/2 --to-position=0/1": "lies after",
		"--from-topic=x --all": "--from-topic", "--from-archive=x --from-position=0/1": "--from-archive",
	} {
		r := invoke(t, b.env, append([]string{"replay"}, strings.Fields(args)...)...)
		require.Equal(t, 2, r.code, args+r.all())
		require.Contains(t, r.stderr, want)
	}
	r = invoke(t, append(b.env, "CDC_OUTBOX_POSTGRES_TABLES=off", "CDC_OUTBOX_POSTGRES_MESSAGES=m"), "replay", "--all")
	require.Equal(t, 2, r.code, r.all())
	require.Contains(t, r.stderr, "pg_logical_emit_message")
}

// TestReplayChoosesRowsOfAnArchive as it chooses rows of the table.
func TestReplayChoosesRowsOfAnArchive(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events", "carts.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at)
		SELECT ('00000000-0000-0000-0000-00000000000' || g)::uuid, CASE WHEN g % 2 = 0 THEN 'orders' ELSE 'carts' END,
			g::text, 'e', '{}',
			CASE g WHEN 8 THEN '-infinity'::timestamptz WHEN 9 THEN '0044-03-15 BC'
				ELSE '2026-01-01T00:00:00Z'::timestamptz + g * interval '1 hour 0.5 microseconds' END
					FROM generate_series(1, 9) g`)
	choices := []string{
		"--aggregate-type=orders", "--aggregate-id=3", "--aggregate-id=3 --aggregate-id=4",
		"--id=00000000-0000-0000-0000-000000000005", "--id={00000000000000000000000000000006}",
		"--since=2026-01-01T03:00:00Z", "--until=2026-01-01T03:00:00Z",
		"--since=2026-01-01T02:00:00Z --until=2026-01-01T05:00:00Z --aggregate-type=orders", "--aggregate-id=nobody",
	}
	rows := func(more ...string) string {
		r := invoke(t, b.env, append([]string{"replay", "--dry-run"}, more...)...)
		require.Equal(t, 0, r.code, r.all())
		_, counts, _ := strings.Cut(r.stdout[strings.LastIndex(r.stdout, "run "):], ": ")
		return counts
	}
	want := map[string]string{}
	for _, choice := range choices {
		want[choice] = rows(strings.Fields(choice)...)
	}
	dir := t.TempDir()
	require.Equal(t, 0, invoke(t, b.env, "prune", "--older-than=1h", "--archive="+dir).code)
	paths, err := filepath.Glob(filepath.Join(dir, "*"+archive.Suffix))
	require.NoError(t, err)
	for _, choice := range choices {
		require.Equal(t, want[choice], rows(append(strings.Fields(choice), "--from-archive="+paths[0])...), choice)
	}
	r := invoke(t, b.env, "replay", "--all", "--from-archive="+paths[0])
	require.Equal(t, 2, r.code, r.all())
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}
