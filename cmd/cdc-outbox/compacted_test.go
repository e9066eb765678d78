package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// TestRepairOfACompactedTopic: of each key such a topic keeps the last record, so events that are not there are looked
// at by key. The commands that find and repair print are run, and after each the last record of a key is its newest
// event. A plain topic gets all that it lacks.
//
// Bug (letters): `find`, `repair`, `replay` and `dead-letter retry` took what compaction had removed for missing. Cost:
// the commands that they print published an old event as the last of its key, and the next compaction removed the
// newest state for good.
func TestRepairOfACompactedTopic(t *testing.T) {
	for policy, want := range map[string]struct {
		missing, superseded int
		last                map[string]string
	}{
		"compact": {2, 3, map[string]string{"both": "1", "first": "1", "last": "1", "none": "2"}},
		"delete":  {5, 0, map[string]string{"both": "1", "first": "0", "last": "1", "none": "2"}},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, testkit.Postgres(t))
			b.env = append(b.env, "CDC_OUTBOX_MONITOR_INTERVAL=1h") // a check would end the connector
			require.NoError(t, b.kafka.Create(t.Context(), kafkaclient.Topic{
				Name: "orders.events", Partitions: 2, Configs: map[string]string{"cleanup.policy": policy},
			}))
			require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
			p := start(t, b.env)
			p.awaitReady(200)
			sent := 0
			insert := func(key string, n int, lost bool) (id string) {
				id = fmt.Sprintf("00000000-0000-0000-0000-%012x", sent)
				sent++
				publish := "ALTER PUBLICATION " + b.db.Publication + " SET (publish = "
				if lost {
					b.db.Exec(t, publish+"'delete')")
				}
				b.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox
					(id, aggregate_type, aggregate_id, event_type, payload, created_at)
					VALUES ('%s', 'orders', '%s', 'set', '%d', clock_timestamp() + '%[3]d ms')`, id, key, n))
				if lost {
					b.db.Exec(t, publish+"'insert')")
				}
				return id
			}
			insert("both", 0, false)
			insert("both", 1, false)
			old := insert("first", 0, true)
			insert("first", 1, false)
			insert("last", 0, false)
			newest := insert("last", 1, true)
			insert("none", 0, true)
			insert("none", 1, true)
			insert("none", 2, true)
			b.records("orders.events", 4)

			find := invoke(t, b.env, "find", old)
			if policy == "compact" {
				require.Equal(t, 0, find.code, find.all())
				require.Contains(t, find.stdout, "Superseded: topic orders.events is compacted")
				require.NotContains(t, find.stdout, "cdc-outbox replay")
				for _, command := range [][]string{{"replay", "--id", old}, {"replay", "--id", newest}} {
					r := invoke(t, b.env, command...)
					require.Equal(t, 3, r.code, r.all())
					require.Contains(t, r.stderr, "it is compacted")
				}
			} else {
				require.Equal(t, 3, find.code, find.all())
			}
			r := invoke(t, b.env, "repair", "--dry-run")
			require.Equal(t, 0, r.code, r.all())
			require.Contains(t, r.stdout, fmt.Sprintf("9 rows, %d of them not in Kafka", want.missing))
			if want.superseded > 0 {
				require.Contains(t, r.stdout, fmt.Sprintf("%d rows are superseded", want.superseded))
			}
			r = invoke(t, b.env, "repair")
			require.Equal(t, 0, r.code, r.all())
			last := map[string]string{}
			for _, rec := range b.records("orders.events", int64(4+want.missing)) {
				last[string(rec.Key)] = string(rec.Value)
			}
			require.Equal(t, want.last, last)
			r = invoke(t, b.env, "repair")
			require.Equal(t, 0, r.code, r.all())
			require.Contains(t, r.stdout, "9 rows, 0 of them not in Kafka")
			r = invoke(t, b.env, "replay", "--id", newest, "--into-compacted")
			require.Equal(t, 0, r.code, r.all())
			require.Equal(t, 0, p.stop(syscall.SIGTERM))
		})
	}
}

// TestRetryIntoACompactedTopic: a letter's event may be older than what the topic has.
func TestRetryIntoACompactedTopic(t *testing.T) {
	t.Parallel()
	r := newBadRig(t, "at_least_once")
	require.NoError(t, r.kafka.Create(t.Context(), kafkaclient.Topic{
		Name: "state", Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact"},
	}))
	r.db.Exec(t, `INSERT INTO outbox VALUES ('e', 'no/topic', 'k', 'created', '{}')`)
	r.deadLettered(1)
	for _, more := range [][]string{nil, {"--dry-run"}} {
		res := r.retry(append(more, "e", "--topic=state")...)
		require.Equal(t, 3, res.code, res.all())
		require.Contains(t, res.all(), "it is compacted")
		require.Contains(t, res.all(), "--into-compacted")
	}
	require.Empty(t, r.read("state"))
	res := r.retry("e", "--topic=state", "--into-compacted")
	require.Equal(t, 0, res.code, res.all())
	require.Len(t, r.read("state"), 1)
}

// TestCheckJoinsKeysWithCompaction: a compacted topic takes no record without a key. Whether there may be one is a
// matter of the table, and the statement that `check` prints ends it.
func TestCheckJoinsKeysWithCompaction(t *testing.T) {
	t.Parallel()
	r := newDebeziumRig(t)
	require.Equal(t, 0, invoke(t, r.env, "setup", "--table").code)
	r.db.Exec(t, `ALTER TABLE outbox ALTER COLUMN aggregateid DROP NOT NULL;
		INSERT INTO outbox VALUES ('00000000-0000-4000-8000-000000000001', 'State', '1', 'Set', '{}')`)
	topic := "outbox.event.State"
	require.NoError(t, r.kafka.Create(t.Context(), kafkaclient.Topic{
		Name: topic, Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact", "min.insync.replicas": "1"},
	}))
	compaction := func() preflight.Finding {
		var got report
		require.NoError(t, json.Unmarshal([]byte(invoke(t, r.env, "check", "--json").stdout), &got))
		i := slices.IndexFunc(got.Findings, func(f preflight.Finding) bool {
			return f.Subject == "topic "+topic && strings.Contains(f.Found, "compacted")
		})
		require.GreaterOrEqual(t, i, 0)
		return got.Findings[i]
	}
	nullable := compaction()
	require.Contains(t, nullable.Found, `"aggregateid"`)
	require.Contains(t, nullable.Found, "may be NULL")
	r.db.Exec(t, nullable.Commands[0])
	require.Equal(t, "It is compacted.", compaction().Found)
}
