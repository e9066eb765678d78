package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/catalogue"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// What is listed was seen in the table, and what a consumer has left to read in Kafka.
func TestEvents(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events", "other.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	c := invoke(t, b.env, "events")
	require.Equal(t, 3, c.code, "without rows: "+c.all())
	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
	insert := func(aggregate, kind string, n int) {
		b.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
			SELECT '%s', i, '%s', '{}' FROM generate_series(1, %d) i`, aggregate, kind, n))
	}
	insert("orders", "created", 3)
	insert("orders", "paid\x1b[31m", 1)
	insert("unread", "created", 2)
	b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('a b', 1, 'x', '{}')`)
	r := start(t, append(b.env, "CDC_OUTBOX_ROUTER_ON_BAD_ROW=skip"))
	r.awaitReady(http.StatusOK)
	b.records("orders.events", 4)
	progress := kadm.Offsets{}
	progress.AddOffset("orders.events", 0, 1, -1)
	committed, err := b.kafka.Admin().CommitOffsets(t.Context(), "billing", progress)
	require.NoError(t, err)
	require.NoError(t, committed.Error())

	c = invoke(t, b.env, "events", "--json")
	require.Equal(t, 0, c.code, c.all())
	var got catalogue.Catalogue
	require.NoError(t, json.Unmarshal([]byte(c.stdout), &got))
	require.Equal(t, 7, got.Rows)
	require.Equal(t, 1, got.BadRows)
	require.Len(t, got.Events, 3)
	require.Equal(t, "created", got.Events[0].Type)
	require.Equal(t, "orders.events", got.Events[0].Topic)
	require.Equal(t, 3, got.Events[0].Rows)
	require.True(t, got.Events[0].Keyed)
	require.Equal(t, []string{"id", "type"}, got.Events[0].Headers)
	require.Equal(t, []catalogue.Consumer{{Group: "billing", Topic: "orders.events", Lag: 3}}, got.Consumers)

	c = invoke(t, b.env, "events")
	require.Equal(t, 0, c.code, c.all())
	require.NotContains(t, c.stdout, "\x1b")
	require.Contains(t, c.stdout, "billing    orders.events  3 records")
	require.Contains(t, c.stdout, "1 row becomes no record")

	c = invoke(t, b.env, "events", "--asyncapi", "--title", "Orders", "--no-consumers")
	require.Equal(t, 0, c.code, c.all())
	require.Contains(t, c.stdout, `"title": "Orders"`)
	require.Contains(t, c.stdout, `"address": "orders.events"`)
	require.Equal(t, 0, r.stop(syscall.SIGTERM), r.text())
}
