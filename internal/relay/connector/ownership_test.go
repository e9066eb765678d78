package connector

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// An instance that finds the slot held by another session gives up what it has not sent, at once. When it gets the slot
// back it begins again and reads on from the slot's position, also where the other has confirmed nothing.
//
// Bug (producer): At least once, nothing kept an instance that had lost the slot from sending what it had in hand.
// Cost: old events after newer ones of the same key: the last record of a key was not its newest event.
func TestTenureEndsWhenAnotherSessionHasTheSlot(t *testing.T) {
	for name, test := range map[string]struct {
		holder  int
		dropped int
		begins  int
		rows    []string
	}{
		"another": {7, 2, 2, []string{"a", "b", "a", "b", "c"}},
		"our own": {5, 0, 1, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := at(50)
				first.BackendPID = 5
				broken := brokenStream(begin(100), row("a"), row("b"), commit(150))
				broken.after = []replication.State{{Phase: replication.WaitingForSlot, HolderPID: test.holder}}
				g := start(t, Config{}, false,
					opening{first, broken},
					opening{at(50), newStream(
						begin(100), row("a"), row("b"), commit(150), begin(200), row("c"), commit(250))})
				synctest.Wait()
				require.Equal(t, test.dropped, g.producer.dropped)
				require.Equal(t, test.rows, g.producer.produced())
				require.Len(t, g.producer.claims, test.begins)
				g.producer.ack()
				require.Equal(t, walAt(250), g.confirmed())
				records, bytes := g.window.InUse()
				require.Zero(t, records)
				require.Zero(t, bytes)
				g.stop()
				require.NoError(t, <-g.done)
			})
		})
	}
}

// A stream that only broke asks Kafka whether another instance began in between; where one did, everything is given up.
func TestTenureAsksAfterAnInterruption(t *testing.T) {
	for name, keep := range map[string]error{"still ours": nil, "fenced": sink.ErrFenced} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := func() *fakeStream {
					return newStream(begin(100), row("a"), commit(150), begin(200), row("b"), commit(250))
				}
				openings := []opening{
					{at(50), brokenStream(begin(100), row("a"), commit(150))},
					{at(50), script()},
				}
				want := []string{"a", "b"}
				if keep != nil {
					openings = append(openings, opening{at(50), script()})
					want = []string{"a", "a", "b"}
				}
				g := startWith(t, Config{}, &fakeProducer{keep: keep}, openings...)
				synctest.Wait()
				require.Equal(t, want, g.producer.produced())
				require.Equal(t, 1, g.producer.kept)
				require.Len(t, g.producer.claims, len(openings)-1)
				require.Equal(t, keep == nil, openings[1].stream.confirms)
				g.stop()
				g.producer.ack()
				require.NoError(t, <-g.done)
			})
		})
	}
}

// Begin counts only when the session still holds the slot afterwards: the rows of a stream that was lost meanwhile are
// old.
//
// Bug (producer): An instance that was frozen between getting the slot and fencing the others published the rows that
// lay in its socket when it awoke. Cost: old events after newer ones.
func TestTenureNeedsTheSlotAfterBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := newStream(begin(100), row("old"), commit(150))
		lost.heldByOther = &fault.Error{Kind: fault.Retry, Err: errors.New("not held")}
		g := start(t, Config{}, false,
			opening{at(50), lost},
			opening{at(150), newStream(begin(200), row("new"), commit(250))})
		synctest.Wait()
		require.Equal(t, []string{"new"}, g.producer.produced())
		require.Len(t, g.producer.claims, 2)
		g.stop()
		g.producer.ack()
		require.NoError(t, <-g.done)
	})
}

// Wherever the reader waits, it learns at once that another instance has fenced it, and does not end.
func TestTenureEndsWhenKafkaFences(t *testing.T) {
	wide := []*pgoutput.Message{begin(100), row("a"), row("b"), row("c"), commit(150)}
	for name, test := range map[string]struct {
		window int
		script []*pgoutput.Message
	}{
		"receiving":      {100, wide},
		"window is full": {2, wide},
		"too much unsent": {1, []*pgoutput.Message{
			begin(100), row("a"), commit(150), begin(200), row("b"), commit(250),
		}},
		"halted": {100, []*pgoutput.Message{begin(100), row("a"), typedRow("b", "../x"), commit(150)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held := newStream(test.script...)
				next := newStream(begin(300), row("next"), commit(350))
				g := start(t, Config{WindowRecords: test.window}, false,
					opening{at(50), held}, opening{at(260), next})
				synctest.Wait()
				before := len(g.producer.produced())
				held.heldByOther = errors.New("not held")
				g.onSessionEnd(sink.ErrFenced)
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, before, g.producer.dropped)
				require.Equal(t, "next", g.producer.produced()[before])
				require.Len(t, g.producer.produced(), before+1)
				require.Equal(t, relay.Streaming, g.Status().State.Name)
				require.Nil(t, g.Status().Halted)
				g.stop()
				g.producer.ack()
				require.NoError(t, <-g.done)
			})
		})
	}
}

// Wherever the reader waits, a session that is over for a reason of Kafka's own ends the stream: the next one brings
// again what was not acknowledged. However often that happens, it is no other connector's doing.
func TestASessionThatIsOverIsBegunAgain(t *testing.T) {
	wide := func() []*pgoutput.Message {
		return []*pgoutput.Message{begin(100), row("a"), row("b"), row("c"), commit(150)}
	}
	for name, test := range map[string]struct {
		window int
		script func() []*pgoutput.Message
	}{
		"receiving": {100, wide}, "window is full": {2, wide},
		"halted": {100, func() []*pgoutput.Message {
			return []*pgoutput.Message{begin(100), row("a"), typedRow("b", "../x"), commit(150)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var openings []opening
				for range fightsTooMany + 2 {
					openings = append(openings, opening{at(50), newStream(test.script()...)})
				}
				g := start(t, Config{WindowRecords: test.window}, false, openings...)
				for n := range len(openings) - 1 {
					synctest.Wait()
					require.Len(t, g.producer.claims, n+1)
					taken := len(g.producer.produced())
					g.onSessionEnd(fmt.Errorf("%w: topic", sink.ErrSessionOver))
					time.Sleep(time.Second)
					synctest.Wait()
					require.Equal(t, taken/(n+1)*(n+2), len(g.producer.produced()), "all of it again")
				}
				records, _ := g.window.InUse()
				require.Equal(t, len(g.producer.produced())/len(openings), records)
				g.stop()
				g.producer.ack()
				if name == "window is full" {
					synctest.Wait()
					g.producer.ack()
				}
				require.NoError(t, <-g.done)
			})
		})
	}
}

// Asked to stop when the session is over: the next start reads it again.
func TestStopsWhenTheSessionIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startWith(t, Config{}, &fakeProducer{drain: fmt.Errorf("%w: topic", sink.ErrSessionOver)},
			opening{at(50), newStream(begin(100), row("a"), commit(150))})
		synctest.Wait()
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// Fenced again and again while the slot is ours: a clone of the database has a connector of its own.
func TestTenureRecognizesAClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		openings := []opening{{at(50), newStream()}}
		for range fightsTooMany {
			openings = append(openings, opening{at(50), newStream()})
		}
		g := start(t, Config{}, false, openings...)
		for range fightsTooMany {
			synctest.Wait()
			g.onSessionEnd(sink.ErrFenced)
		}
		err := <-g.done
		require.Equal(t, fault.Operator, fault.KindOf(err))
		require.ErrorContains(t, err, "a copy of this database")
		require.ErrorContains(t, err, "cdc-outbox.1.")
	})
}

func TestFightsInARow(t *testing.T) {
	var f fights
	now := time.Unix(1e9, 0)
	require.Equal(t, 1, f.count(true, 5, now))
	require.Equal(t, 2, f.count(true, 5, now.Add(time.Minute)))
	require.Equal(t, 0, f.count(false, 5, now.Add(2*time.Minute)), "another session had the slot")
	require.Equal(t, 1, f.count(true, 5, now.Add(3*time.Minute)))
	require.Equal(t, 1, f.count(true, 5, now.Add(time.Hour)), "long ago")
	now = now.Add(time.Hour)
	require.Equal(t, 2, f.count(true, 6, now.Add(fightsLull)), "progress, and fenced again at once")
	require.Equal(t, 1, f.count(true, 7, now.Add(2*fightsLull+1)), "progress")
	require.Equal(t, 2, f.count(true, 7, now.Add(4*fightsLull)), "none")
}

// TestAStartThatRefusesItselfFencesNobody: what Kafka keeps shows that the server was put back, and the instance that
// publishes, on the server that was copied, goes on.
//
// Bug (producer): An instance raised the epoch first and compared its server with what Kafka keeps afterwards. Cost: a
// connector on a copy of the database that a supervisor started again and again, and that rightly refused itself each
// time, ended the healthy one at the fifth start with "fenced 5 times in a row"; production stayed down.
func TestAStartThatRefusesItselfFencesNobody(t *testing.T) {
	for name, cfg := range map[string]Config{"at least once": {}, "exactly once": exactlyOnce(Config{})} {
		t.Run(name, func(t *testing.T) {
			s := newStream(begin(100), row("a"), commit(150))
			s.compare = &fault.Error{Kind: fault.Operator, Object: "slot", Err: errors.New("put back")}
			g := startWith(t, cfg, &fakeProducer{}, opening{at(50), s})
			require.ErrorIs(t, <-g.done, s.compare)
			require.Empty(t, g.producer.claims)
			require.Empty(t, g.producer.produced())
		})
	}
}

// TestComparesBeforeAndAfterBegin: another instance may publish between the two queries of Kafka.
func TestComparesBeforeAndAfterBegin(t *testing.T) {
	s := newStream(begin(0x200), row("a"), commit(0x210), begin(0x300), row("b"), commit(0x310))
	p := &fakeProducer{auto: true, latest: stored(1, 0x100, 0), stored: stored(1, 0x200, 0)}
	p.latest.Mark = sink.Mark{Timeline: 1, Writes: 1}
	p.stored.Mark = sink.Mark{Timeline: 1, Writes: 2}
	r := startWith(t, exactlyOnce(Config{}), p, opening{at(0x100), s})
	require.Eventually(t, func() bool { return r.confirmed() == 0x310 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"b"}, r.producer.produced())
	require.Len(t, s.compared, 2)
	require.EqualValues(t, 1, s.compared[0].Writes)
	require.EqualValues(t, 2, s.compared[1].Writes)
	r.stop()
	require.NoError(t, <-r.done)
}

// TestNoRightToLook: without the right to the group nothing is known, and it begins.
func TestNoRightToLook(t *testing.T) {
	r := startWith(t, Config{}, &fakeProducer{auto: true, looks: sink.ErrNotAllowed},
		opening{at(50), newStream(begin(100), row("a"), commit(150))})
	require.Eventually(t, func() bool { return r.confirmed() == 150 }, 30*time.Second, time.Millisecond)
	r.stop()
	require.NoError(t, <-r.done)
}

// Asked to stop when another instance publishes: there is nothing left to wait for.
func TestTenureStopsWhenFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startWith(t, Config{}, &fakeProducer{drain: sink.ErrFenced},
			opening{at(50), newStream(begin(100), row("a"), commit(150))})
		synctest.Wait()
		g.stop()
		require.NoError(t, <-g.done)
	})
}
