package walsender_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

// The checkpoint's statements, as replication has them.
const (
	readRow = `SELECT (SELECT to_jsonb(m)::text FROM "public"."cdc_outbox_memory" m WHERE slot = 's'),
		CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END`
	updateRow = `UPDATE "public"."cdc_outbox_memory" SET position = greatest(position, $2::pg_lsn), updated_at = now(),
		writes = writes + 1
		WHERE slot = $1::text AND system_id = $3::text AND timeline = $4::int AND writes >= $5::bigint
		AND (SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE slot_name = $1::text) IS NULL
		RETURNING position::text, updated_at, writes`
	insertRow = `INSERT INTO "public"."cdc_outbox_memory" (slot, system_id, timeline, position, writes)
		SELECT $1::text, $3::text, $4::int, $2::pg_lsn, $5::bigint + 1
		WHERE (SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE slot_name = $1::text) IS NULL
		ON CONFLICT (slot) DO NOTHING RETURNING position::text, updated_at, writes`
)

// upsertRow begins a row or goes on with it.
func upsertRow(timeline, position string) string {
	return `INSERT INTO "public"."cdc_outbox_memory" (slot, system_id, timeline, position)
		VALUES ('s', '7', ` + timeline + `, '` + position + `')
		ON CONFLICT (slot) DO UPDATE SET timeline = ` + timeline + `, updated_at = now(),
		position = CASE WHEN "public"."cdc_outbox_memory".timeline = ` + timeline +
		` THEN greatest("public"."cdc_outbox_memory".position, '` + position + `') ELSE '` + position + `' END`
}

// row reads the checkpoint's row.
func (c *client) row() map[string]any {
	c.t.Helper()
	row, _, code := c.query(readRow)
	require.Empty(c.t, code)
	require.NotZero(c.t, walsender.ParseLSN(row[1]))
	if row[0] == "" {
		return nil
	}
	var columns map[string]any
	require.NoError(c.t, json.Unmarshal([]byte(row[0]), &columns))
	return columns
}

func checkpointRow(t testing.TB, s server) {
	c, near := connect(t, s, replication), connect(t, s, nil)
	defer c.close()
	defer near.close()
	update := func(at, system, timeline, writes string) (row []string, tag string) {
		row, tag, code := near.prepared(updateRow, "s", at, system, timeline, writes)
		require.Empty(t, code)
		return row, tag
	}
	require.Nil(t, c.row())
	_, tag := update("0/100", "7", "1", "0")
	require.Equal(t, "UPDATE 0", tag)

	_, tag, code := c.query(upsertRow("1", "0/100"))
	require.Empty(t, code)
	require.Equal(t, "INSERT 0 1", tag)
	row := c.row()
	require.Equal(t, "0/100", row["position"])
	require.EqualValues(t, 1, row["timeline"])
	require.EqualValues(t, 0, row["writes"])
	require.Equal(t, "7", row["system_id"])
	require.NotEmpty(t, row["updated_at"])

	back, tag := update("0/200", "7", "1", "0")
	require.Equal(t, "UPDATE 1", tag)
	require.Equal(t, "0/200", back[0])
	require.Equal(t, "1", back[2])
	back, _ = update("0/150", "7", "1", "1")
	require.Equal(t, "0/200", back[0], "never back")
	require.Equal(t, "2", back[2])
	back, _ = update("A/0", "7", "1", "2")
	require.Equal(t, "A/0", back[0])
	back, _ = update("9/FFFFFFFF", "7", "1", "2")
	require.Equal(t, "A/0", back[0], "positions are compared as positions")
	for _, wrong := range [][3]string{{"8", "1", "0"}, {"7", "2", "0"}, {"7", "1", "100"}} {
		_, tag := update("F/0", wrong[0], wrong[1], wrong[2])
		require.Equal(t, "UPDATE 0", tag, "%v", wrong)
	}
	_, tag, code = near.prepared(insertRow, "s", "F/0", "7", "1", "9")
	require.Empty(t, code)
	require.Equal(t, "INSERT 0 0", tag)

	for _, again := range [][3]string{{"1", "0/50", "A/0"}, {"1", "B/0", "B/0"}, {"2", "0/70", "0/70"}} {
		_, tag, code := c.query(upsertRow(again[0], again[1]))
		require.Empty(t, code)
		require.Equal(t, "INSERT 0 1", tag)
		require.Equal(t, again[2], c.row()["position"])
	}
	back, tag, code = near.prepared(insertRow, "other", "F/0", "7", "1", "9")
	require.Empty(t, code)
	require.Equal(t, "INSERT 0 1", tag)
	require.Equal(t, "F/0", back[0])
	require.Equal(t, "10", back[2])
	_, _, code = near.query(`UPDATE cdc_outbox_memory SET nothing = 1`)
	require.Equal(t, "42703", code)
}

func rights(t testing.TB, s server) {
	c, near := connect(t, s, replication), connect(t, s, nil)
	defer c.close()
	defer near.close()
	_, _, code := c.query(upsertRow("1", "0/100"))
	require.Empty(t, code)
	s.deny(true)
	_, _, code = c.query(readRow)
	require.Equal(t, "42501", code)
	_, _, code = c.query(upsertRow("1", "0/200"))
	require.Equal(t, "42501", code)
	_, _, code = near.prepared(updateRow, "s", "0/200", "7", "1", "0")
	require.Equal(t, "42501", code)
	s.deny(false)
	require.Equal(t, "0/100", c.row()["position"], "nothing was written, and the sessions go on")
	_, tag, code := near.prepared(updateRow, "s", "0/200", "7", "1", "0")
	require.Empty(t, code)
	require.Equal(t, "UPDATE 1", tag)
}

func lockedTable(t testing.TB, s server) {
	c := connect(t, s, replication)
	defer c.close()
	near := connect(t, s, map[string]string{"statement_timeout": "500"})
	defer near.close()
	require.NoError(t, session.Override(context.Background(), near.conn)) // what the client asked for stays
	_, _, code := c.query(upsertRow("1", "0/100"))
	require.Empty(t, code)
	s.lock(true)
	began := time.Now()
	_, _, code = near.prepared(updateRow, "s", "0/200", "7", "1", "0")
	require.Equal(t, "57014", code)
	lasted(t, s, began, 0.5, 0.4)
	require.Equal(t, "0/100", c.row()["position"], "reading waits for nothing")
	s.lock(false)
	_, tag, code := near.prepared(updateRow, "s", "0/200", "7", "1", "0")
	require.Empty(t, code)
	require.Equal(t, "UPDATE 1", tag)
}

func restarts(t testing.TB, s server) {
	first, second, _ := confirmedFirst(t, s)
	c := connect(t, s, replication)
	_, _, code := c.query(upsertRow("1", "0/100"))
	require.Empty(t, code)
	before := c.identify()
	s.stop(false)
	_, _, code = c.query("SELECT pg_backend_pid()")
	require.Contains(t, []string{"57P01", "closed"}, code)
	c.close()
	_, err := tryConnect(t, s, nil)
	require.Error(t, err)
	s.start()
	c = connect(t, s, replication)
	defer c.close()
	after := c.identify()
	require.Equal(t, before.SystemID, after.SystemID)
	require.Equal(t, before.Timeline, after.Timeline)
	require.GreaterOrEqual(t, after.XLogPos, before.XLogPos)
	require.Equal(t, "0/100", c.row()["position"])
	at := c.confirmed()
	require.LessOrEqual(t, at, first.end)
	if s.version() >= 17 {
		require.Equal(t, first.end, at, "from 17 on the position is saved")
	}
	require.Empty(t, c.start(first.end))
	require.Equal(t, second, c.next())
}

func crashes(t testing.TB, s server) {
	first, second, _ := confirmedFirst(t, s)
	c := stream(t, s, 0)
	side := connect(t, s, replication)
	_, _, code := side.query(upsertRow("1", "0/100"))
	require.Empty(t, code)
	s.stop(true)
	code, _ = c.over()
	require.Contains(t, []string{"57P01", "57P02", "closed"}, code)
	c.close()
	side.close()
	s.start()
	c = connect(t, s, replication)
	defer c.close()
	require.LessOrEqual(t, c.confirmed(), first.end)
	require.Zero(t, c.holder())
	require.Equal(t, "0/100", c.row()["position"], "a commit is durable")
	require.Empty(t, c.start(first.end))
	require.Equal(t, second, c.next())
}

func copyDone(t testing.TB, s server) {
	s.commit("a")
	c := stream(t, s, 0)
	defer c.close()
	last := c.next()
	c.status(last.end, false)
	require.NoError(t, c.sendCopyDone())
	for h := c.receive(patience); !h.done; h = c.receive(patience) {
		require.Empty(t, h.code)
		require.False(t, h.nothing)
	}
	side := connect(t, s, nil)
	defer side.close()
	await(t, "the slot is released", func() bool { return side.holder() == 0 })
	require.Equal(t, last.end, side.confirmed())
}
