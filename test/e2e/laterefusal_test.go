//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// Rows that only the broker can refuse, in one transaction with good ones: records without a key, of a topic that is
// compacted. Each ends a session of the producer. The good rows are published in order, and each bad one has a letter
// that holds its row. exactly_once repeats nothing.
func TestRowsThatOnlyTheBrokerRefuses(t *testing.T) {
	t.Parallel()
	const rows, every = 150, 10
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			c, _ := sharedKafka(t)
			db := testkit.Postgres(t)
			db.Exec(t, `CREATE TABLE outbox (id text, aggregatetype text, aggregateid text, type text, payload text)`)
			kind := testkit.Name(t)
			topic, letters := "outbox.event."+kind, kind+".letters"
			require.NoError(t, c.Create(within(t, patience), kafkaclient.Topic{
				Name: topic, Configs: map[string]string{"cleanup.policy": "compact"},
			}, kafkaclient.Topic{Name: letters}))
			r := &rig{T: t, db: db, kafka: c, began: time.Now(), env: map[string]string{
				"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
				"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": c.Addrs()[0],
				"CDC_OUTBOX_ROUTER_PRESET": "debezium", "CDC_OUTBOX_ROUTER_DEBEZIUM_TOPIC_PREFIX": "shop",
				"CDC_OUTBOX_DELIVERY":          delivery,
				"CDC_OUTBOX_ROUTER_ON_BAD_ROW": "dead_letter", "CDC_OUTBOX_ROUTER_DEAD_LETTER_TOPIC": letters,
			}}
			r.start()
			db.Exec(t, fmt.Sprintf(`INSERT INTO outbox
				SELECT i::text, '%s', CASE WHEN i %% %d > 0 THEN 'k' END, 'x', i::text
				FROM generate_series(1, %d) i`, kind, every, rows))
			began := time.Now()
			r.awaitConfirmed()
			t.Logf("%d rows, %d of them refused: %v", rows, rows/every, time.Since(began))

			ids := func(topic string) (ids []string) {
				for _, rec := range r.committed(topic, -1) {
					for _, h := range rec.Headers {
						if h.Key == "id" {
							ids = append(ids, string(h.Value))
						}
					}
				}
				return ids
			}
			good, bad, seen := ids(topic), ids(letters), map[string]bool{}
			if delivery == "exactly_once" {
				require.Len(t, good, rows-rows/every)
				require.Len(t, bad, rows/every)
			}
			first := func(all []string) (once []string) {
				for _, id := range all {
					if !seen[id] {
						seen[id] = true
						once = append(once, id)
					}
				}
				return once
			}
			var wantGood, wantBad []string
			for i := 1; i <= rows; i++ {
				if i%every > 0 {
					wantGood = append(wantGood, fmt.Sprint(i))
				} else {
					wantBad = append(wantBad, fmt.Sprint(i))
				}
			}
			require.Equal(t, wantGood, first(good))
			require.Equal(t, wantBad, first(bad))
		})
	}
}
