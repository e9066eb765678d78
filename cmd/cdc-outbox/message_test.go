package main

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// Events without a table: the publication is empty, and what was rolled back never shows.
func TestLogicalMessagesAreEvents(t *testing.T) {
	t.Parallel()
	for _, version := range testkit.Versions(t, "14", "18") {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, testkit.Postgres(t, version), "orders.events", "cdc-outbox.dead-letter")
			b.env = append(b.env, "CDC_OUTBOX_POSTGRES_TABLES=off", "CDC_OUTBOX_POSTGRES_MESSAGES=outbox",
				"CDC_OUTBOX_ROUTER_ON_BAD_ROW=dead_letter")
			res := invoke(t, b.env, "setup")
			require.Equal(t, 0, res.code, res.all())
			b.db.Exec(t, `CREATE TABLE orders (id int PRIMARY KEY)`)
			emit := func(n string) string {
				return `SELECT pg_logical_emit_message(true, 'outbox', '{"id":"e` + n +
					`","aggregate_type":"orders","aggregate_id":"1","type":"created","payload":{"n" : ` + n + `.50}}');`
			}
			b.db.Exec(t, emit("1")+`INSERT INTO orders VALUES (1)`)
			b.db.Exec(t, `SELECT pg_logical_emit_message(true, 'other', 'not ours')`)
			b.db.Exec(t, `BEGIN;`+emit("2")+`SAVEPOINT s;`+emit("9")+`ROLLBACK TO s;`+emit("3")+`COMMIT`)
			r := start(t, b.env)
			r.awaitReady(http.StatusOK)
			b.db.Exec(t, `SELECT pg_logical_emit_message(true, 'outbox', '{"id":"bad"')`)
			b.db.Exec(t, `SELECT pg_logical_emit_message(false, 'outbox', '{"id":"loose"}')`)
			b.db.Exec(t, emit("4"))
			all := b.records("orders.events", 4)
			require.Len(t, all, 4)
			for i, n := range []string{"1", "2", "3", "4"} {
				require.Equal(t, "e"+n, headerOf(all[i], "id"))
				require.Equal(t, "1", string(all[i].Key))
				require.Equal(t, `{"n" : `+n+`.50}`, string(all[i].Value))
			}
			require.Regexp(t, `-00000000$`, headerOf(all[1], "position"))
			require.Regexp(t, `-00000001$`, headerOf(all[2], "position"))
			letter := b.records("cdc-outbox.dead-letter", 1)[0]
			require.Equal(t, `{"id":"bad"`, string(letter.Value))
			r.awaitText("not emitted in a transaction")
			require.Equal(t, 0, r.stop(syscall.SIGTERM))

			// A letter is corrected and published like one of a row.
			retry := invoke(t, b.env, "dead-letter", "retry", "--all", "--set=aggregate_type=orders",
				"--set=aggregate_id=1", "--set=event_type=created", "--set=id=bad", "--set=payload={}")
			require.Equal(t, 0, retry.code, retry.all())
			require.Equal(t, "bad", headerOf(b.records("orders.events", 5)[4], "id"))
			check := invoke(t, b.env, "check")
			require.Equal(t, 0, check.code, check.all())
		})
	}
}
