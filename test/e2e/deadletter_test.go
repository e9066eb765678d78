//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// Bad rows of every kind that a table can hold, between good ones: the good ones are published in order, each bad one
// is in the dead-letter topic once, list shows it, and a retry publishes it.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			c, _ := sharedKafka(t)
			// Where Kafka refuses a record, the transaction with the rows before it is aborted and sent again.
			committed, err := c.Inside(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			require.NoError(t, err)
			t.Cleanup(committed.Close)
			db := testkit.Postgres(t)
			db.Exec(t,
				`CREATE TABLE outbox (id text, aggregate_type text, aggregate_id text, event_type text, payload json,
					headers json, created_at text)`)
			kind := testkit.Name(t)
			topic, letters := kind+".events", kind+".letters"
			require.NoError(t, c.Create(within(t, patience), kafkaclient.Topic{
				Name: topic, Configs: map[string]string{"max.message.bytes": "2000"},
			},
				kafkaclient.Topic{Name: letters, Partitions: 3}))
			r := &rig{T: t, db: db, kafka: c, began: time.Now(), env: map[string]string{
				"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
				"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": c.Addrs()[0],
				"CDC_OUTBOX_DELIVERY": delivery, "CDC_OUTBOX_ROUTER_ON_BAD_ROW": "dead_letter",
				"CDC_OUTBOX_ROUTER_DEAD_LETTER_TOPIC": letters,
			}}
			bad := []struct{ id, reason, values, mend string }{
				{"u", "unroutable", `'u', NULL, 'k', 'x', '1', NULL, NULL`, "--topic=" + topic},
				{"i", "illegal_topic", `'i', 'no/topic', 'k', 'x', '1', NULL, NULL`, "--topic=" + topic},
				{"n", "null_key", fmt.Sprintf(`'n', '%s', NULL, 'x', '1', NULL, NULL`, kind), "--key=k"},
				{"b", "bad_headers", fmt.Sprintf(`'b', '%s', 'k', 'x', '1', '[1]', NULL`, kind), "--null=headers"},
				{
					"t", "bad_timestamp", fmt.Sprintf(`'t', '%s', 'k', 'x', '1', NULL, 'soon'`, kind),
					"--null=created_at",
				},
				{
					"l", "too_large",
					fmt.Sprintf(`'l', '%s', 'k', 'x', ('"' || repeat('l', 3000) || '"')::json, NULL, NULL`, kind),
					"--topic=" + topic,
				},
			}
			r.start()
			for i, b := range bad {
				db.Exec(t, "INSERT INTO outbox VALUES ("+b.values+")")
				db.Exec(t, fmt.Sprintf(`INSERT INTO outbox VALUES ('good%d', '%s', 'k', 'x', '{}')`, i, kind))
			}
			published := func(n int) (ids []string) {
				var records []*kgo.Record
				require.Eventually(t, func() bool {
					var err error
					records, err = committed.Read(r.within(patience), topic)
					ids = nil
					for _, rec := range records {
						if rec.Attrs.IsControl() {
							continue
						}
						for _, h := range rec.Headers {
							if h.Key == "id" {
								ids = append(ids, string(h.Value))
							}
						}
					}
					return err == nil && len(ids) >= n
				}, patience, 200*time.Millisecond)
				return ids
			}
			require.Equal(t, []string{"good0", "good1", "good2", "good3", "good4", "good5"}, published(len(bad)))
			r.awaitConfirmed() // the letters are in a topic of their own
			command := func(code int, args ...string) string {
				p, err := process.Start(process.Options{Args: append([]string{"dead-letter"}, args...), Env: r.env})
				require.NoError(t, err)
				defer p.Close()
				got, err := p.Wait(patience)
				require.NoError(t, err)
				require.Equal(t, code, got, p.Stdout()+p.Log())
				return p.Stdout()
			}
			list := func(args ...string) (out []struct {
				ID, Reason, State string
				Copies            int
			},
			) {
				require.NoError(t, json.Unmarshal([]byte(command(0, append([]string{"list", "--json"}, args...)...)),
					&out))
				return out
			}
			entries := list()
			require.Len(t, entries, len(bad))
			for i, e := range entries {
				require.Equal(t, []any{bad[i].id, bad[i].reason, "open", 1}, []any{e.ID, e.Reason, e.State, e.Copies})
			}
			larger := "100000"
			_, err = c.Admin().AlterTopicConfigs(t.Context(),
				[]kadm.AlterConfig{{Name: "max.message.bytes", Value: &larger}}, topic)
			require.NoError(t, err)
			for _, b := range bad {
				command(0, "retry", b.id, b.mend)
				command(3, "retry", b.id, b.mend) // twice is said, not done
			}
			got := published(2 * len(bad))
			require.Equal(t, []string{"u", "i", "n", "b", "t", "l"}, slices.Collect(slices.Values(got[len(bad):])))
			require.Empty(t, list("--open"))
		})
	}
}
