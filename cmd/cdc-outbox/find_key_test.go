package main

import (
	"encoding/json"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/find"
)

// A record's key is what the key's converter writes, and a column can choose the partition.
//
// Bug (rows): `find --key` ignored the key's converter and the placement `partition`. Cost: it missed published
// records; past the slot, advice to replay them.
//
// Bug (rows): Where rows are deleted at once and a converter writes the keys, `find --key` said that the event was
// never committed. Cost: advice about an event that Kafka had.
func TestFindKeyOfDebezium(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"converter": {"CDC_OUTBOX_ROUTER_DEBEZIUM_KEY_CONVERTER=json"},
		"partition": {"CDC_OUTBOX_ROUTER_DEBEZIUM_ADDITIONAL=shard:partition"},
		"both": {
			"CDC_OUTBOX_ROUTER_DEBEZIUM_KEY_CONVERTER=json_with_schema",
			"CDC_OUTBOX_ROUTER_DEBEZIUM_ADDITIONAL=shard:partition",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDebeziumRig(t, env...)
			r.db.Exec(t, `CREATE TABLE outbox (id text NOT NULL, aggregatetype text, aggregateid text, type text,
				payload text, shard int)`)
			require.Equal(t, 0, invoke(t, r.env, "setup").code)
			for _, row := range []string{"'e1', 0", "'e2', 1", "'e3', 2"} {
				r.db.Exec(t, "INSERT INTO outbox (id, shard, aggregatetype, aggregateid, payload) VALUES ("+row+
					", 'Order', '42', '{}')")
			}
			c := start(t, r.env)
			c.awaitReady(http.StatusOK)
			require.NoError(t, r.kafka.Await(t.Context(), 3, "outbox.event.Order"))
			res := invoke(t, r.env, "find", "--json", "--key", "42")
			require.Equal(t, 0, res.code, res.all())
			var report find.Report
			require.NoError(t, json.Unmarshal([]byte(res.stdout), &report))
			require.Len(t, report.Records, 3)
			for _, row := range report.Rows {
				require.True(t, row.InKafka, row.EventID)
			}
			require.Equal(t, 0, c.stop(syscall.SIGTERM))
			if name == "converter" { // the key is known from rows only
				r.db.Exec(t, "DELETE FROM outbox")
				res = invoke(t, r.env, "find", "--json", "--key", "42")
				var without find.Report
				require.NoError(t, json.Unmarshal([]byte(res.stdout), &without))
				require.Equal(t, find.Unsearched, without.Verdict, res.all())
				require.False(t, without.Complete)
			}
		})
	}
}
