package connector

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Bug (stream): The commit was confirmed when it was received, not when Kafka had acknowledged it. Cost: loss on a
// crash.
func TestConfirmsACommitsEndOnlyAfterTheAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{}, false, opening{at(50), newStream(begin(100), row("a"), row("b"), commit(150))})
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, g.producer.produced())
		require.Equal(t, walAt(50), g.confirmed())
		g.producer.ack()
		require.Equal(t, walAt(150), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestIdleSlotFollowsKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{}, true, opening{at(50), newStream(keepalive(400))})
		synctest.Wait()
		require.Equal(t, walAt(400), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// Bug (stream): A reconnect within one process sent everything after the saved slot position again. Cost: repeats.
func TestABrokenStreamRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{}, false,
			opening{at(50), brokenStream(begin(100), row("a"), commit(150), begin(200), row("b"))},
			opening{at(50), newStream(begin(100), row("a"), commit(150), begin(200), row("b"), row("c"), commit(250))})
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c"}, g.producer.produced())
		require.EqualValues(t, 2, g.Status().Counts.Repeated)
		g.producer.ack()
		require.Equal(t, walAt(250), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// The stream breaks while a row waits for room. Were the row given up with the stream, its repeat would be taken for
// one under way, and it would never be produced.
//
// Bug (stream): A row that waited for room in the window was dropped when its stream broke. Cost: loss.
func TestARowThatWaitsForRoomSurvivesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{WindowRecords: 1}, false,
			opening{at(50), brokenStream(begin(100), row("a"), row("b"))},
			opening{at(50), newStream(begin(100), row("a"), row("b"), commit(150))})
		synctest.Wait()
		require.Equal(t, []string{"a"}, g.producer.produced())
		g.producer.ack()
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, g.producer.produced())
		g.producer.ack()
		require.Equal(t, walAt(150), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// The wait for room ends when the stream is broken: another instance may have the slot by then, while Kafka takes
// nothing. The row is read again.
//
// Bug (stream): A reader that waited for room in the window, or between transactions, noticed a broken stream only when
// Kafka made room. Cost: an instance that had lost the slot did not report it, and kept what it had read. Also:
// `TestAWaitBetweenTransactionsLeavesABrokenStream` in `internal/relay/connector`.
func TestARowThatWaitsForRoomLeavesABrokenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newStream(begin(100), row("a"), row("b"), row("c"), commit(150))
		second := newStream(begin(100), row("a"), row("b"), row("c"), commit(150))
		g := start(t, Config{WindowRecords: 1}, false, opening{at(50), first}, opening{at(50), second})
		synctest.Wait()
		close(first.broken)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, first.script, 2)
		require.Len(t, second.script, 2, "it waits at the same row of the next stream")
		require.Equal(t, []string{"a"}, g.producer.produced())
		for range 3 {
			g.producer.ack()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		require.Equal(t, []string{"a", "b", "c"}, g.producer.produced())
		require.Equal(t, walAt(150), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// Between transactions the same: the window is full of rows that are not acknowledged.
func TestAWaitBetweenTransactionsLeavesABrokenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newStream(begin(100), row("a"), commit(150), begin(200), row("b"), commit(250))
		second := newStream(begin(100), row("a"), commit(150), begin(200), row("b"), commit(250))
		first.after = []replication.State{{Phase: replication.WaitingForSlot, HolderPID: 77}}
		g := start(t, Config{WindowRecords: 1}, false, opening{at(50), first}, opening{at(50), second})
		synctest.Wait()
		require.Len(t, first.script, 2)
		close(first.broken)
		synctest.Wait()
		require.Equal(t, 1, g.producer.dropped, "another instance has the slot")
		for range 2 {
			g.producer.ack()
			synctest.Wait()
		}
		require.Equal(t, []string{"a", "a", "b"}, g.producer.produced())
		require.Equal(t, walAt(250), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// One row is stuck; rows of other partitions are acknowledged. What a crash would repeat stays within the window.
//
// Bug (stream): While one partition was stuck, the other partitions continued without limit. Cost: a crash repeated all
// of it.
func TestAStuckPartitionBoundsWhatACrashWouldRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := []*pgoutput.Message{begin(100), row("stuck"), commit(110)}
		for i := range uint64(100) {
			script = append(script, begin(200+10*i), row("x"), commit(205+10*i))
		}
		g := start(t, Config{WindowRecords: 5}, false, opening{at(50), newStream(script...)})
		stuck := uint64(0)
		for range 50 {
			synctest.Wait()
			stuck = g.producer.ackAllBut(stuck)
		}
		synctest.Wait()
		require.Len(t, g.producer.produced(), 5)
		require.Equal(t, 5, g.tracker.Load().Unconfirmed())
		for range 50 {
			g.producer.ack()
			synctest.Wait()
		}
		require.Len(t, g.producer.produced(), 101)
		require.Equal(t, walAt(1195), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestPositionsStartOverWhenTheyLostTheirMeaning(t *testing.T) {
	promoted := at(60)
	promoted.Timeline, promoted.TimelineChanged = 2, true
	for name, second := range map[string]replication.Identity{"timeline": promoted, "slot moved by another": at(170)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := start(t, Config{}, false,
					opening{at(50), brokenStream(begin(100), row("a"), commit(150), begin(200), row("b"))},
					opening{second, newStream(begin(300), row("c"), commit(350))})
				synctest.Wait()
				require.Equal(t, []string{"a", "b", "c"}, g.producer.produced())
				require.Equal(t, 2, g.producer.dropped, "what was in flight is sent again from the slot, if it exists")
				records, _ := g.window.InUse()
				require.Equal(t, 1, records)
				require.Equal(t, walAt(uint64(second.ConfirmedFlush)), g.confirmed())
				g.producer.ack()
				require.Equal(t, walAt(350), g.confirmed())
				g.stop()
				require.NoError(t, <-g.done)
			})
		})
	}
}

// Bug (stream): A stop in the middle of a transaction sent half of it again at the next start. Cost: repeats after a
// graceful stop.
func TestAGracefulStopReadsToTheCommitAndWaitsForTheAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(begin(100), row("a"), row("b"), commit(150), begin(200), row("c"), commit(250))
		g := start(t, Config{WindowRecords: 1}, false, opening{at(50), s})
		synctest.Wait()
		g.stop() // within the first transaction: b waits for room
		synctest.Wait()
		g.producer.ack()
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, g.producer.produced(), "to the commit and no further")
		select {
		case <-s.finished:
			t.Fatal("finished before the last row was acknowledged")
		default:
		}
		g.producer.ack()
		<-s.finished
		require.NoError(t, <-g.done)
		require.Equal(t, walAt(150), g.confirmed())
	})
}

func TestAStopEndsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{DrainLimit: 3 * time.Second}, false,
			opening{at(50), newStream(begin(100), row("a"), commit(150))})
		synctest.Wait()
		began := time.Now()
		g.stop()
		require.NoError(t, <-g.done)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, walAt(50), g.confirmed(), "what was not acknowledged is not confirmed")
	})
}

func TestHaltKeepsTheProcessAtTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(begin(100), row("a"), commit(150), begin(200), typedRow("b", "no/topic"), row("c"), commit(250))
		g := start(t, Config{}, true, opening{at(50), s})
		synctest.Wait()
		require.Equal(t, []string{"a"}, g.producer.produced())
		require.Equal(t, walAt(150), g.confirmed(), "what lies before the row is confirmed")
		ready, why := g.Ready()
		require.False(t, ready)
		require.Contains(t, why, "halted at event b")
		require.Equal(t, "illegal_topic", g.Status().Halted.Reason)
		require.Equal(t, "0/C8", g.Status().Halted.LSN)
		g.stop()
		<-s.finished
		require.NoError(t, <-g.done)
	})
}

// TestHaltSurvivesItsStream: the row stays where the relay is halted, and a server that was restarted gets its reader
// back.
//
// Bug (stream): A relay that was halted at a row did not notice that Postgres had been restarted. Cost: a slot without
// a reader, and a process that appeared healthy.
func TestHaltSurvivesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := []*pgoutput.Message{
			begin(100), row("a"), commit(150), begin(200), row("b"),
			typedRow("bad", "no/topic"), row("c"), commit(250), begin(300), row("d"), commit(350),
		}
		first, second := newStream(script...), newStream(script[3:]...)
		g := start(t, Config{}, true, opening{at(50), first}, opening{at(150), second})
		synctest.Wait()
		require.NotNil(t, g.Status().Halted)
		close(first.broken)
		synctest.Wait()
		require.Equal(t, relay.Halted, g.Status().State.Name)
		require.Len(t, second.script, 5, "the second stream is read up to the row and no further")
		require.Equal(t, []string{"a", "b"}, g.producer.produced())
		require.Equal(t, walAt(150), g.confirmed())
		g.stop()
		<-second.finished
		require.NoError(t, <-g.done)
	})
}

// TestAStandbyStopsAtOnce, also one that has streamed before: what it could confirm is another instance's business now.
//
// Bug (stream): A waiting instance that had streamed before waited for the whole drain limit on SIGTERM. Cost: 8 s
// without need.
func TestAStandbyStopsAtOnce(t *testing.T) {
	for _, stopFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := start(t, Config{}, false)
			require.NoError(t, g.identified(at(50)))
			synctest.Wait()
			if stopFirst { // the slot turns out to be held while the stop waits for a stream
				g.streamState(replication.State{Phase: replication.Connecting})
				g.stop()
				synctest.Wait()
			}
			began := time.Now()
			g.streamState(replication.State{Phase: replication.WaitingForSlot, HolderPID: 7})
			g.stop()
			require.NoError(t, <-g.done)
			require.Zero(t, time.Since(began))
		})
	}
}

// TestHaltSaysWhatHelps: the row is in the log, where no operator can correct it.
func TestHaltSaysWhatHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.ErrorLevel)
		g := start(t, Config{Logger: zap.New(core)}, true, opening{
			at(50),
			newStream(begin(100), typedRow("b", "no/topic"), commit(150)),
		})
		synctest.Wait()
		next := g.Status().Halted.Next
		require.Contains(t, next, "--router-on-bad-row skip")
		require.Contains(t, next, "insert it again")
		require.Equal(t, 1, logs.Len())
		require.Equal(t, next, logs.All()[0].ContextMap()["next"])
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// TestTheFirstFailureIsAnIncrease: increase() over a counter that begins at 1 is 0, and the alert on it stays silent.
func TestTheFirstFailureIsAnIncrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{}, true, opening{at(50), newStream(begin(100), typedRow("b", "no/topic"))})
		failed := func() map[string]float64 {
			families, err := g.registry.Gather()
			require.NoError(t, err)
			values := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if f.GetName() == "cdc_outbox_events_failed_total" {
						values[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
					}
				}
			}
			return values
		}
		synctest.Wait()
		after := failed()
		require.Equal(t, 1.0, after["illegal_topic "])
		require.Len(t, after, len(router.Reasons()), "the others are there, at 0, and this one was")
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// TestStatusWhilePostgresIsAway: what the last stream knew does not become unknown, nor fresh, with its end.
func TestStatusWhilePostgresIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := start(t, Config{}, true)
		synctest.Wait()
		require.Nil(t, never.Status().HeardSecondsAgo)
		never.stop()
		require.NoError(t, <-never.done)

		g := start(t, Config{}, true, opening{at(50), brokenStream(begin(100), row("a"), commit(150))})
		synctest.Wait()
		time.Sleep(5 * time.Second)
		st := g.Status()
		require.Equal(t, relay.Reconnecting, st.State.Name)
		require.Equal(t, "0/150", st.ReceivedLSN)
		require.Equal(t, 5.0, *st.HeardSecondsAgo)
		g.setState(relay.State{Name: relay.Streaming}) // the moment between the stream's end and the next state
		ready, why := g.Ready()
		require.False(t, ready)
		require.NotContains(t, why, "streaming")
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestSkipGoesOnAndConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(begin(100), typedRow("a", "no/topic"), commit(150), begin(200),
			typedRow("b", "__consumer_offsets"), row("c"), commit(250))
		g := start(t, Config{Policies: relay.Policies{Default: relay.Skip}}, true, opening{at(50), s})
		synctest.Wait()
		require.Equal(t, []string{"c"}, g.producer.produced())
		require.Equal(t, walAt(250), g.confirmed())
		require.EqualValues(t, 2, g.Status().Counts.Skipped)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestNotReadyWhileKafkaIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{Stall: 5 * time.Second}, false,
			opening{at(50), newStream(begin(100), row("a"), commit(150))})
		time.Sleep(4 * time.Second)
		ready, why := g.Ready()
		require.True(t, ready, why)
		time.Sleep(4 * time.Second)
		ready, why = g.Ready()
		require.False(t, ready)
		require.Contains(t, why, "not acknowledged")
		g.producer.ack()
		time.Sleep(2 * time.Second)
		ready, why = g.Ready()
		require.True(t, ready, why)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// One partition is stuck and the others go on: the slot does not move, so all is not well.
//
// Bug (stream): While one partition was stuck the relay was ready, because other partitions were still acknowledged.
// Cost: a slot that did not advance, unnoticed.
func TestNotReadyWhileTheOldestRowIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var script []*pgoutput.Message
		for i := uint64(100); i < 1300; i += 100 {
			script = append(script, begin(i), row("a"), commit(i+50))
		}
		g := start(t, Config{Stall: 5 * time.Second}, false, opening{at(50), newStream(script...)})
		synctest.Wait()
		for _, ticket := range g.producer.tickets[1:] {
			g.producer.acked(sink.Delivery{Topic: "order.events", Tickets: []uint64{ticket}, Bytes: 1})
			time.Sleep(time.Second)
		}
		ready, why := g.Ready()
		require.False(t, ready)
		require.Contains(t, why, "oldest event")
		g.producer.tickets = g.producer.tickets[:1]
		g.producer.ack()
		time.Sleep(2 * time.Second)
		ready, why = g.Ready()
		require.True(t, ready, why)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// TestNotReadyWhileTheSlotIsHeldBack: everything is acknowledged, and the slot is not advanced.
func TestNotReadyWhileTheSlotIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := newStream(begin(100), row("a"), commit(150))
		held.heldSince = time.Now()
		held.heldBack = &fault.Error{Kind: fault.Retry, Object: "table m", Err: errors.New("locked"), Next: "unlock"}
		g := start(t, Config{Stall: 5 * time.Second}, true, opening{at(50), held})
		synctest.Wait()
		ready, why := g.Ready()
		require.True(t, ready, why)
		time.Sleep(6 * time.Second)
		ready, why = g.Ready()
		require.False(t, ready)
		require.Equal(t, "the slot is held back for 6 s: table m: locked", why)
		st := g.Status()
		require.Equal(t, fault.Wait{
			Kind: WaitMemory, Object: "table m", Reason: "locked", Next: "unlock",
			Since: held.heldSince,
		}, st.Waits[0])
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestImpossibleInputEndsTheProcess(t *testing.T) {
	for name, s := range map[string]*fakeStream{
		"row outside a transaction": newStream(row("a")),
		"commits out of order":      newStream(begin(200), row("a"), commit(250), begin(100)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := start(t, Config{}, false, opening{at(50), s})
				err := <-g.done
				require.Error(t, err)
				require.Equal(t, fault.Fatal, fault.KindOf(err))
				require.Contains(t, err.Error(), "slot")
			})
		})
	}
	t.Run("a second ack", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := start(t, Config{}, true, opening{at(50), newStream(begin(100), row("a"), commit(150), begin(200),
				row("b"))})
			synctest.Wait()
			g.acked(sink.Delivery{Topic: "order.events", Tickets: []uint64{1<<48 | 7}})
			require.Equal(t, fault.Fatal, fault.KindOf(<-g.done))
		})
	})
}

// A publication may hold other tables. What has the columns of an outbox is one under whatever name, since a renamed
// table must not lose its rows; a configured one that lacks a column halts.
//
// Bug (setup): One row of another table in the publication halted the relay. Cost: an outage.
func TestPassesOverTablesThatAreNoOutbox(t *testing.T) {
	named := func(id, table string, columns ...string) *pgoutput.Message {
		m := row(id)
		m.Relation = &pgoutput.Relation{OID: 9, Namespace: "public", Name: table}
		for _, c := range columns {
			m.Relation.Columns = append(m.Relation.Columns, pgoutput.Column{Name: c})
		}
		m.Tuple = m.Tuple[:len(columns)]
		return m
	}
	renamed := []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"}
	cfg := Config{Replication: replication.Config{Tables: []identifier.Table{{Schema: "public", Name: "outbox"}}}}
	synctest.Test(t, func(t *testing.T) {
		g := start(t, cfg, true, opening{at(50), newStream(begin(100), named("1", "orders", "n"), row("a"),
			named("2", "orders", "n"), named("b", "outbox_old", renamed...), commit(150), begin(200),
			named("3", "orders", "n"), commit(250))})
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, g.producer.produced())
		require.Equal(t, walAt(250), g.confirmed())
		require.EqualValues(t, 3, g.Status().Counts.Foreign)
		g.stop()
		require.NoError(t, <-g.done)
	})
	synctest.Test(t, func(t *testing.T) {
		g := start(t, cfg, true, opening{at(50), newStream(begin(100), named("c", "outbox", "id", "n"), commit(150))})
		synctest.Wait()
		require.Equal(t, relay.Halted, g.Status().State.Name)
		g.stop()
		require.NoError(t, <-g.done)
	})
}
