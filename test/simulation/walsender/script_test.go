package walsender_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

// scripts hold for the stand-in and for a real server alike.
var scripts = []struct {
	name string
	run  func(testing.TB, server)
}{
	{"IDENTIFY_SYSTEM names the cluster and the end of the log", identifies},
	{"a stream from 0/0 begins at the slot's position", startsAtTheSlot},
	{"a stream that asks for less begins at the slot's position", startsBefore},
	{"a stream that asks for more skips, and the slot stays", startsAfter},
	{"a transaction is sent where its commit record does not start before the position", startsAtACommit},
	{"a slot, a publication and a syntax that do not exist", startsNothing},
	{"a second session is refused while one reads", held},
	{"the slot is released when its session ends", released},
	{"what was not confirmed is sent again after a lost session", sentAgain},
	{"a status update moves the slot, and never back", confirms},
	{"a server that is asked answers", answers},
	{"the client learns of a log that grows without events", tells},
	{"a silent client is asked, and given up after wal_sender_timeout", timesOut},
	{"a client that reports outlives wal_sender_timeout", outlives},
	{"a stream ends with what a terminated session says", terminated},
	{"CopyDone ends the stream and releases the slot", copyDone},
	{"the slot's row has the same columns", slotColumns},
	{"pg_replication_slot_advance", advances},
	{"the checkpoint's row is inserted, updated and compared", checkpointRow},
	{"rights on the checkpoint's table are revoked and granted", rights},
	{"a locked table ends in statement_timeout", lockedTable},
	{"a server that stops ends its sessions, and its slot survives", restarts},
	{"a crash brings back a slot that is not ahead", crashes},
	{"transaction_timeout ends a stream within a transaction", limits},
	{"locks of lanes belong to a transaction, or to a session between two", laneLocks},
	{"the standby gate learns who has the slot, and how far the log is", looksAtStandbys},
}

// TestScripts runs what the simulation takes for granted against the stand-in and against PostgreSQL.
func TestScripts(t *testing.T) {
	for _, major := range []int{15, 17} {
		t.Run(fmt.Sprint("stand-in ", major), func(t *testing.T) {
			for _, s := range scripts {
				t.Run(s.name, func(t *testing.T) { runStandIn(t, major, s.run) })
			}
		})
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		runReal(t, func(run func(*testing.T, func(testing.TB, server)), _ int) {
			for _, s := range scripts {
				t.Run(s.name, func(t *testing.T) { run(t, s.run) })
			}
		})
	})
}

func identifies(t testing.TB, s server) {
	c := connect(t, s, replication)
	defer c.close()
	first := c.identify()
	_, err := strconv.ParseUint(first.SystemID, 10, 64)
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Timeline)
	require.Equal(t, s.database(), first.DBName)
	require.LessOrEqual(t, c.confirmed(), walsender.LSN(first.XLogPos))
	s.commit("a")
	second := c.identify()
	require.Equal(t, first.SystemID, second.SystemID)
	require.Greater(t, second.XLogPos, first.XLogPos)
	row, _, code := c.query(`SELECT current_database(), current_setting('server_version_num'), pg_is_in_recovery(),
		pg_backend_pid(), pg_current_wal_insert_lsn()`)
	require.Empty(t, code)
	require.Equal(t, s.database(), row[0])
	version, err := strconv.Atoi(row[1])
	require.NoError(t, err)
	require.Equal(t, s.version(), version/10000)
	require.Equal(t, "f", row[2])
	pid, err := strconv.Atoi(row[3])
	require.NoError(t, err)
	require.Positive(t, pid)
	require.GreaterOrEqual(t, walsender.ParseLSN(row[4]), walsender.LSN(second.XLogPos))
}

func startsAtTheSlot(t testing.TB, s server) {
	s.commit("a", "b")
	s.commit("c")
	c := stream(t, s, 0)
	defer c.close()
	first, second := c.next(), c.next()
	require.Equal(t, []string{"a", "b"}, first.ids)
	require.Equal(t, []string{"c"}, second.ids)
	require.Greater(t, first.end, first.commit)
	require.GreaterOrEqual(t, second.commit, first.end, "the end of one is where another's record may start")
	s.commit("d")
	require.Equal(t, []string{"d"}, c.next().ids)
}

// confirmed leaves a slot that is past the first of three transactions.
func confirmedFirst(t testing.TB, s server) (first, second, third txn) {
	s.commit("a")
	s.commit("b")
	s.commit("c")
	c := stream(t, s, 0)
	first, second, third = c.next(), c.next(), c.next()
	c.status(first.end, false)
	side := connect(t, s, nil)
	defer side.close()
	await(t, "the slot has moved", func() bool { return side.confirmed() == first.end })
	c.close()
	await(t, "the slot is released", func() bool { return side.holder() == 0 })
	return first, second, third
}

func startsBefore(t testing.TB, s server) {
	first, second, _ := confirmedFirst(t, s)
	c := stream(t, s, first.commit)
	defer c.close()
	require.Equal(t, second, c.next())
}

func startsAfter(t testing.TB, s server) {
	first, second, third := confirmedFirst(t, s)
	c := stream(t, s, second.end)
	defer c.close()
	require.Equal(t, third, c.next())
	side := connect(t, s, nil)
	defer side.close()
	require.Equal(t, first.end, side.confirmed())
}

func startsAtACommit(t testing.TB, s server) {
	_, second, third := confirmedFirst(t, s)
	c := stream(t, s, second.commit)
	require.Equal(t, second, c.next())
	c.cut()
	side := connect(t, s, nil)
	defer side.close()
	await(t, "the slot is released", func() bool { return side.holder() == 0 })
	c = stream(t, s, second.commit+1)
	defer c.close()
	require.Equal(t, third, c.next())
}

func startsNothing(t testing.TB, s server) {
	c := connect(t, s, replication)
	defer c.close()
	_, _, code := c.query(`START_REPLICATION SLOT "nothing" LOGICAL 0/0 (proto_version '1', publication_names 'x')`)
	require.Equal(t, "42704", code)
	_, _, code = c.query(`START_REPLICATION nonsense here`)
	require.Equal(t, "42601", code)
	_, _, code = c.query(`SELECT position FROM nothing WHERE slot = 'x'`)
	require.Equal(t, "42P01", code)
	require.NotEmpty(t, c.identify().SystemID, "the session goes on")
}

func held(t testing.TB, s server) {
	first := stream(t, s, 0)
	defer first.close()
	second := connect(t, s, replication)
	defer second.close()
	require.Equal(t, first.pid(), second.holder())
	require.Equal(t, "55006", second.start(0))
	require.Equal(t, first.pid(), second.holder(), "the session goes on")
	s.commit("a")
	require.Equal(t, []string{"a"}, first.next().ids)
}

func released(t testing.TB, s server) {
	first := stream(t, s, 0)
	second := connect(t, s, replication)
	defer second.close()
	require.Equal(t, first.pid(), second.holder())
	first.cut()
	await(t, "the slot is released", func() bool { return second.holder() == 0 })
	require.Empty(t, second.start(0))
	s.commit("a")
	require.Equal(t, []string{"a"}, second.next().ids)
}

func sentAgain(t testing.TB, s server) {
	_, second, third := confirmedFirst(t, s)
	side := connect(t, s, nil)
	defer side.close()
	for range 3 {
		c := stream(t, s, 0)
		require.Equal(t, second, c.next(), "the same positions each time")
		require.Equal(t, third, c.next())
		c.cut()
		await(t, "the slot is released", func() bool { return side.holder() == 0 })
	}
}

func confirms(t testing.TB, s server) {
	s.commit("a")
	s.commit("b")
	c := stream(t, s, 0)
	defer c.close()
	first, second := c.next(), c.next()
	side := connect(t, s, nil)
	defer side.close()
	before := side.confirmed()
	settled := func() { // an answer comes after the update was worked on
		c.status(0, true)
		for answered := false; !answered; {
			answered = c.receive(patience).keepalive != nil
		}
	}
	settled()
	require.Equal(t, before, side.confirmed(), "0 says nothing")
	c.status(second.end, false)
	settled()
	await(t, "the slot has moved", func() bool { return side.confirmed() == second.end })
	c.status(first.end, false)
	settled()
	require.Equal(t, second.end, side.confirmed())
}

func answers(t testing.TB, s server) {
	s.commit("a")
	c := stream(t, s, 0)
	defer c.close()
	last := c.next()
	for range 3 {
		c.status(last.end, true)
		h := c.receive(patience)
		for h.message != nil { // an empty transaction, before 15
			h = c.receive(patience)
		}
		require.NotNil(t, h.keepalive)
		require.False(t, h.keepalive.ReplyRequested)
		require.GreaterOrEqual(t, walsender.LSN(h.keepalive.ServerWALEnd), last.end)
	}
}

func tells(t testing.TB, s server) {
	c := stream(t, s, 0)
	defer c.close()
	side := connect(t, s, replication)
	defer side.close()
	for range 3 {
		s.foreign()
		end := walsender.LSN(side.identify().XLogPos)
		at := c.reached(end)
		c.status(at, false)
		await(t, "the slot has moved", func() bool { return side.confirmed() >= end })
	}
}

const shortTimeout = `SELECT set_config('wal_sender_timeout', '2000', false)`

func timesOut(t testing.TB, s server) {
	side := connect(t, s, nil)
	defer side.close()
	began := time.Now()
	c := stream(t, s, 0, shortTimeout)
	defer c.close()
	h := c.receive(patience)
	for h.keepalive == nil || !h.keepalive.ReplyRequested {
		require.Empty(t, h.code)
		h = c.receive(patience)
	}
	lasted(t, s, began, 1.0, 0.6) // half of the time
	code, _ := c.over()
	require.Equal(t, "closed", code, "without a word")
	lasted(t, s, began, 2.0, 1.2)
	await(t, "the slot is released", func() bool { return side.holder() == 0 })
}

// lasted wants so many seconds since a moment, give or take delta. A real server on a busy machine may take longer, but
// not less.
func lasted(t testing.TB, s server, since time.Time, seconds, delta float64) {
	t.Helper()
	took := time.Since(since).Seconds()
	require.GreaterOrEqual(t, took, seconds-delta)
	if _, is := s.(*realServer); is {
		delta += 30
	}
	require.LessOrEqual(t, took, seconds+delta)
}

func outlives(t testing.TB, s server) {
	c := stream(t, s, 0, `SELECT set_config('wal_sender_timeout', '5000', false)`)
	defer c.close()
	for began := time.Now(); time.Since(began) < 11*time.Second; {
		c.status(0, false)
		h := c.receive(500 * time.Millisecond)
		require.Empty(t, h.code)
	}
	s.commit("a")
	require.Equal(t, []string{"a"}, c.next().ids)
}

func terminated(t testing.TB, s server) {
	c := stream(t, s, 0)
	defer c.close()
	side := connect(t, s, nil)
	s.terminate(c.pid())
	code, _ := c.over()
	require.Equal(t, "57P01", code)
	await(t, "the slot is released", func() bool { return side.holder() == 0 })
	s.terminate(side.pid())
	_, _, code = side.query("SELECT pg_backend_pid()")
	require.Contains(t, []string{"57P01", "closed"}, code)
	side.close()
	again := stream(t, s, 0)
	defer again.close()
	s.commit("a")
	require.Equal(t, []string{"a"}, again.next().ids)
}

func slotColumns(t testing.TB, s server) {
	c := connect(t, s, replication)
	defer c.close()
	columns := c.slot()
	require.Equal(t, "cdc_outbox", columns["slot_name"])
	require.Equal(t, "pgoutput", columns["plugin"])
	require.Equal(t, "logical", columns["slot_type"])
	require.Equal(t, s.database(), columns["database"])
	require.Equal(t, false, columns["temporary"])
	require.Equal(t, false, columns["two_phase"])
	require.Equal(t, "reserved", columns["wal_status"])
	require.Equal(t, false, columns["active"])
	require.Nil(t, columns["active_pid"])
	confirmed, err := lsn.Parse(columns["confirmed_flush_lsn"].(string))
	require.NoError(t, err)
	restart, err := lsn.Parse(columns["restart_lsn"].(string))
	require.NoError(t, err)
	require.LessOrEqual(t, restart, confirmed)
	require.Empty(t, c.start(0))
	side := connect(t, s, nil)
	defer side.close()
	require.Equal(t, true, side.slot()["active"])
	require.EqualValues(t, c.pid(), side.slot()["active_pid"])
	row, _, code := side.query(`SELECT coalesce(active_pid, 0) FROM pg_catalog.pg_replication_slots
		WHERE slot_name = 'cdc_outbox'`)
	require.Empty(t, code)
	require.Equal(t, strconv.Itoa(c.pid()), row[0])
}

func advances(t testing.TB, s server) {
	first, second, third := confirmedFirst(t, s)
	side := connect(t, s, nil)
	defer side.close()
	require.Empty(t, s.advance(second.end))
	require.Equal(t, second.end, side.confirmed())
	require.Equal(t, "55000", s.advance(first.end), "never back")
	c := stream(t, s, 0)
	defer c.close()
	require.Equal(t, third, c.next())
	require.Equal(t, "55006", s.advance(third.end), "not while it is read")
	require.Equal(t, second.end, side.confirmed())
}

func limits(t testing.TB, s server) {
	s.limitTransactions(1500 * time.Millisecond)
	defer s.limitTransactions(0)
	var ids []string
	for i := range 4000 { // more than sockets take
		ids = append(ids, fmt.Sprint("e", strings.Repeat("x", 1000), i))
	}
	c := stream(t, s, 0)
	defer c.close()
	s.commit(ids[:1]...)
	_ = c.next()
	s.commit(ids[1:]...)
	time.Sleep(5 * time.Second) //waits:ok the client takes nothing
	if s.version() < 17 {
		require.Len(t, c.next().ids, len(ids)-1)
		return
	}
	code, _ := c.over()
	require.Equal(t, "25P04", code)
}
