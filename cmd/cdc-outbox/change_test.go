package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// A publication that sends everything, as Debezium makes it: what is not an insert is counted, and the event of a row
// that was deleted in the transaction that inserted it comes once.
func TestChangesOfTheOutboxAreNoEvents(t *testing.T) {
	t.Parallel()
	for _, version := range testkit.Versions(t, "14", "18") {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, testkit.Postgres(t, version), "orders.events")
			require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
			b.db.Exec(t, `ALTER PUBLICATION `+b.db.Publication+` SET (publish = 'insert, update, delete, truncate')`)
			one := func(n string) string {
				return `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
					VALUES ('orders', '1', 'created', '{"n": ` + n + `}'); `
			}
			b.db.Exec(t, one("1")+`DELETE FROM outbox`)
			b.db.Exec(t, one("2")+`UPDATE outbox SET payload = '{"n": 0}'; UPDATE outbox SET id = gen_random_uuid()`)
			b.db.Exec(t, `TRUNCATE outbox; `+one("3"))
			r := start(t, b.env)
			r.awaitReady(http.StatusOK)
			var values []string
			for _, rec := range b.records("orders.events", 3) {
				values = append(values, string(rec.Value))
			}
			require.Equal(t, []string{`{"n": 1}`, `{"n": 2}`, `{"n": 3}`}, values)
			_, metrics := r.get("/metrics")
			for _, line := range []string{
				`{operation="update"} 2`, `{operation="delete"} 1`, `{operation="truncate"} 1`,
			} {
				require.Contains(t, metrics, "cdc_outbox_outbox_changes_total"+line)
			}
			require.Equal(t, 0, r.stop(syscall.SIGTERM))

			// The same with halt: it is in front of the update, and goes on with another policy.
			b.db.Exec(t, one("4")+`DELETE FROM outbox`)
			b.db.Exec(t, one("5"))
			b.db.Exec(t, `UPDATE outbox SET payload = NULL; `+one("6"))
			r = start(t, b.env, "--postgres-on-change=halt")
			b.records("orders.events", 5)
			why := ""
			require.Eventually(t, func() bool {
				_, why = r.get("/readyz")
				return strings.Contains(why, "UPDATE of public.outbox")
			}, 30*time.Second, 50*time.Millisecond, why)
			require.Equal(t, 0, r.stop(syscall.SIGTERM)) // which lets it send what it has read
			require.Len(t, b.records("orders.events", 5), 5)
			r = start(t, b.env)
			r.awaitReady(http.StatusOK)
			all := b.records("orders.events", 6)
			require.Len(t, all, 6)
			require.Equal(t, `{"n": 6}`, string(all[5].Value))
		})
	}
}
