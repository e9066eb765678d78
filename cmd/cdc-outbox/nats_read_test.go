package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/find"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

// TestJetStreamIsReadBack: where an event is, and what was dead-lettered, is answered from the stream as from Kafka.
func TestJetStreamIsReadBack(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), jetstream.StreamConfig{
		Name: "OUTBOX", Subjects: []string{"outbox.>", "letters"},
	})
	env := []string{
		"CDC_OUTBOX_POSTGRES_DSN=" + db.DSN, "CDC_OUTBOX_POSTGRES_SLOT=" + db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION=" + db.Publication, "CDC_OUTBOX_SINK=nats",
		"CDC_OUTBOX_NATS_SERVERS=" + s.URL(), "CDC_OUTBOX_ROUTER_TOPIC=outbox.${aggregate_type}",
		"CDC_OUTBOX_ROUTER_DEAD_LETTER_TOPIC=letters", "CDC_OUTBOX_ROUTER_ON_BAD_ROW=dead_letter",
	}
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
	look := func(code int, args ...string) *find.Report {
		t.Helper()
		r := invoke(t, env, append([]string{"find", "--json"}, args...)...)
		require.Equal(t, code, r.code, r.all())
		var report find.Report
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &report), r.all())
		return &report
	}
	db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_headers_check")
	good := value(t, db, insertOne, "order", "k1", nil)
	bad := value(t, db, insertOne, "order", "k2", `{"id": "mine"}`)
	require.Equal(t, "The row is committed and not in JetStream: no process reads slot \""+db.Slot+"\".",
		look(3, good).Sentence)
	p := start(t, env)
	p.awaitReady(200)
	until := func(is func() bool) { t.Helper(); require.Eventually(t, is, time.Minute, 10*time.Millisecond) }
	until(func() bool { return len(natsserver.Messages(t, stream)) == 2 })

	report := look(0, good)
	require.Equal(t, "Published: subject outbox.order, message 1.", report.Sentence)
	require.Len(t, report.Records, 1)
	require.NotEmpty(t, report.Records[0].Position)
	require.True(t, report.Rows[0].InKafka)
	report = look(3, bad)
	require.Equal(t, find.DeadLettered, report.Verdict)
	require.Equal(t, []string{"cdc-outbox dead-letter show " + bad}, report.Commands)
	require.Contains(t, report.Next, "insert its row once more, with a new id")
	require.Equal(t, good, look(0, "--key", "k1").Records[0].EventID)

	var letters []deadletter.Entry
	r := invoke(t, env, "dead-letter", "list", "--open", "--json")
	require.Equal(t, 0, r.code, r.all())
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &letters))
	require.Len(t, letters, 1)
	require.Equal(t, bad, letters[0].ID)
	require.EqualValues(t, 2, letters[0].Offset)
	r = invoke(t, env, "dead-letter", "show", bad, "--payload")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, `{"id": "mine"}`)
	file := filepath.Join(t.TempDir(), "letters.jsonl")
	r = invoke(t, env, "dead-letter", "export", "--to", file)
	require.Equal(t, 0, r.code, r.all())
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(written), bad)
	r = invoke(t, env, "dead-letter", "list", "--file", file)
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, bad)
	r = invoke(t, env, "dead-letter", "retry", bad)
	require.Equal(t, 2, r.code, r.all())

	r = invoke(t, env, "repair", "--ghosts")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "0 of them without a row")
	db.Exec(t, `ALTER PUBLICATION "`+db.Publication+`" DROP TABLE outbox`)
	missing := value(t, db, insertOne, "order", "k1", nil)
	db.Exec(t, `ALTER PUBLICATION "`+db.Publication+`" ADD TABLE outbox`)
	last := value(t, db, insertOne, "order", "k1", nil)
	until(func() bool { return invoke(t, env, "find", last).code == 0 })
	until(func() bool { return len(look(3, missing).Gaps) > 0 })
	r = invoke(t, env, "repair")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "public.outbox: 4 rows, 1 of them not in JetStream, 0 published again\n  "+missing)
	require.Contains(t, r.stdout, "1 row makes no record")
	require.Contains(t, r.stderr, "1 row is not in JetStream, and only the connector publishes there")

	db.Exec(t, "DELETE FROM outbox WHERE id = '"+missing+"'; INSERT INTO outbox SELECT gen_random_uuid(), "+
		"aggregate_type, aggregate_id, event_type, payload, headers FROM outbox WHERE id = '"+last+"'")
	db.Exec(t, "DELETE FROM outbox WHERE id = '"+last+"'")
	r = invoke(t, env, "repair", "--ghosts", "--json")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, last)
	require.Contains(t, r.stderr, "1 events in JetStream have no row")
	r = invoke(t, env, "repair")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stderr, "is settled: 0 rows were not in JetStream, 0 were published")

	require.NoError(t, stream.DeleteMsg(t.Context(), 1))
	db.Exec(t, "SELECT pg_logical_emit_message(false, '', '')") // the slot moves on
	until(func() bool { return look(3, good).Verdict == find.Uncertain })
	report = look(3, good)
	require.Contains(t, report.Sentence, "JetStream may have removed its record")
}
