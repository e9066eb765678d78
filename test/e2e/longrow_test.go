//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// Bug (rows): A row was received whole, whatever its length. Cost: one of 100 MB ended every start in a container of
// 384 MiB, which no line of the log named, and nothing after it was published. Also: `TestCutterLeavesOutLongValues` in
// `pgoutput`.
func TestRowsOfAnyLength(t *testing.T) {
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			r, kind, _ := plainRig(t, testkit.Postgres(t))
			r.db.Exec(t, `DROP TABLE outbox`)
			r.db.Exec(t, `CREATE TABLE outbox (id text, aggregate_type text, aggregate_id text, event_type text,
				payload text, scan bytea)`)
			topic, letters := kind+"-long.events", kind+".letters"
			require.NoError(t, r.kafka.Create(within(t, patience), kafkaclient.Topic{Name: letters, Partitions: 1},
				kafkaclient.Topic{Name: topic, Configs: map[string]string{"max.message.bytes": "80000000"}}))
			p := r.start(map[string]string{
				"CDC_OUTBOX_DELIVERY": delivery, "CDC_OUTBOX_ROUTER_ON_BAD_ROW": "dead_letter",
				"CDC_OUTBOX_ROUTER_DEAD_LETTER_TOPIC": letters, "CDC_OUTBOX_POSTGRES_MESSAGES": "mine",
			})
			insert := func(id, payload, scan string) {
				r.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox VALUES ('%s', '%s-long', 'k', 'x', %s, %s)`, id, kind,
					payload, scan))
			}
			want := []string{"first"}
			insert("first", `'1'`, `NULL`)
			sizes := []int{2, 30, 60, 70, soak(900, 200)}
			for _, mb := range sizes {
				id := fmt.Sprintf("of %d MB", mb)
				if insert(id, fmt.Sprintf(`repeat('x', %d000000)`, mb), `NULL`); mb < 64 {
					want = append(want, id)
				}
			}
			insert("unpublished column", `'2'`, `decode(repeat('00', 100000000), 'hex')`)
			r.db.Exec(t, `SELECT pg_logical_emit_message(true, 'theirs', repeat('x', 100000000))`)
			r.db.Exec(t, `SELECT pg_logical_emit_message(true, 'mine', repeat('x', 100000000))`)
			insert("last", `'3'`, `NULL`)
			want = append(want, "unpublished column", "last")

			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.Equal(c, want, idsIn(r, topic))
			}, patience, time.Second)
			require.Equal(t, []string{"of 70 MB", fmt.Sprintf("of %d MB", soak(900, 200)), ""}, idsIn(r, letters))
			code, err := p.Stop(patience)
			require.NoError(t, err)
			require.Zero(t, code)
			t.Logf("peak RSS %s", mib(p.Usage().PeakRSS))
			require.LessOrEqual(t, p.Usage().PeakRSS, int64(380<<20))
		})
	}
}

// idsIn lists the ids of the events or letters in a topic.
func idsIn(r *rig, topic string) (ids []string) {
	r.Helper()
	records, err := r.kafka.Read(r.within(patience), topic)
	require.NoError(r, err)
	for _, rec := range records {
		if rec.Attrs.IsControl() {
			continue
		}
		ids = append(ids, headerOf(rec, "id"))
		if reason := headerOf(rec, "cdc-outbox-reason"); reason != "" {
			require.Equal(r, "too_large", reason)
			require.Contains(r, headerOf(rec, "cdc-outbox-detail"), "window.row")
		}
	}
	return ids
}
