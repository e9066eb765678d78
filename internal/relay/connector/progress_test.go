package connector

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Each step of the oldest transaction is progress: one more of its rows, and its end.
func TestProgressOfTheOldestTransaction(t *testing.T) {
	for name, script := range map[string][]*pgoutput.Message{
		"transactions of one row": {
			begin(100), row("a"), commit(110), begin(200), row("b"), commit(210), begin(300), row("c"), commit(310),
			begin(400), row("d"), commit(410),
		},
		"rows of one transaction": {begin(100), row("a"), row("b"), row("c"), row("d"), commit(110)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := start(t, Config{Stall: 5 * time.Second}, false, opening{at(50), newStream(script...)})
				synctest.Wait()
				tickets := g.producer.tickets
				g.producer.tickets = nil
				for _, ticket := range tickets {
					time.Sleep(4 * time.Second)
					ready, why := g.Ready()
					require.True(t, ready, why)
					g.producer.acked(sink.Delivery{Topic: "order.events", Tickets: []uint64{ticket}, Bytes: 1})
				}
				g.stop()
				require.NoError(t, <-g.done)
			})
		})
	}
}

// The log has the beginning and the end of a stall, once each.
func TestProgressSaysWhenItStalls(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	c, p := idle(t, Config{Logger: zap.New(core), Stall: 5 * time.Second})
	p.trouble = []sink.Trouble{{Object: "broker 1", Sentence: "is away"}, {Object: "broker 2", Sentence: "too"}}
	stalled := false
	for _, step := range []struct {
		age  time.Duration
		is   bool
		says int
	}{
		{4 * time.Second, false, 0},
		{5 * time.Second, false, 0},
		{6 * time.Second, true, 1},
		{7 * time.Second, true, 1},
		{0, false, 2},
		{time.Second, false, 2},
	} {
		stalled = c.reportStall(stalled, step.age)
		require.Equal(t, step.is, stalled, step.age)
		require.Equal(t, step.says, logs.Len(), step.age)
	}
	require.Equal(t, "broker 1", logs.All()[0].ContextMap()["object"], "the oldest trouble")
	require.Contains(t, logs.All()[1].Message, "acknowledges again")
}

// At the limit all is well, past it nothing is; while records are under way, silence says nothing about Postgres.
func TestReadyAtTheLimits(t *testing.T) {
	const stall = 5 * time.Second
	for name, test := range map[string]struct {
		set  func(g *rig, s *fakeStream, ago time.Time)
		want string
	}{
		"held back": {func(_ *rig, s *fakeStream, ago time.Time) {
			s.heldSince, s.heldBack = ago, &fault.Error{Object: "table m", Err: errNotStored}
		}, "the slot is held back for 5 s: table m: not stored"},
		"no progress": {
			func(g *rig, _ *fakeStream, ago time.Time) { g.progress.moved(ago) },
			"Kafka has not acknowledged the oldest event for 5 s: broker 1: is away",
		},
		"silent": {
			func(_ *rig, s *fakeStream, ago time.Time) { s.heard = ago },
			"nothing was heard from Postgres for 5 s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(begin(100), row("a"), commit(150))
				p := &fakeProducer{auto: true, trouble: []sink.Trouble{{Object: "broker 1", Sentence: "is away"}}}
				g := startWith(t, Config{Stall: stall}, p, opening{at(50), s})
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				test.set(g, s, time.Now().Add(-stall))
				ready, why := g.Ready()
				require.True(t, ready, why)
				test.set(g, s, time.Now().Add(-stall-time.Millisecond))
				ready, why = g.Ready()
				require.False(t, ready)
				require.Equal(t, test.want, why)
				if name == "silent" {
					require.True(t, g.window.TryAcquire(1))
					ready, why = g.Ready()
					require.True(t, ready, why)
				}
				g.stop()
				require.NoError(t, <-g.done)
			})
		})
	}
}

// justCommitted begins a transaction of this moment.
func justCommitted(commit uint64) *pgoutput.Message {
	m := begin(commit)
	m.Begin.CommitTime = time.Now()
	return m
}

func TestStatusOfTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := at(50)
		id.ServerVersion = 150018
		g := start(t, Config{}, false, opening{id, newStream(justCommitted(100), row("a"), row("b"))})
		synctest.Wait()
		time.Sleep(7 * time.Second)
		st := g.Status()
		require.Equal(t, "0/64", st.Open.CommitLSN)
		require.Equal(t, 2, st.Open.Rows)
		require.Equal(t, 7.0, st.OldestUnconfirmedSeconds)
		require.Equal(t, "15.18", st.Server.Version)
		require.Empty(t, st.Account().Halted)
		g.stop()
		g.producer.ack()
		require.NoError(t, <-g.done)
	})
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{}, true, opening{at(50), newStream(begin(100), typedRow("b", "no/topic"))})
		synctest.Wait()
		st := g.Status()
		require.Equal(t, "b", st.Account().Halted[0].EventID)
		require.Empty(t, st.Server.Version)
		g.stop()
		require.NoError(t, <-g.done)
	})
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{}, true, opening{at(50), newStream(begin(100), row("a"), commit(150))})
		synctest.Wait()
		require.Nil(t, g.Status().Open)
		require.Zero(t, g.Status().OldestUnconfirmedSeconds)
		g.stop()
		require.NoError(t, <-g.done)
	})
}
