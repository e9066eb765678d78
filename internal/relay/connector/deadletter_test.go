package connector

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const letters = "dead.letters"

func deadLetterConfig() Config {
	return Config{
		Policies: relay.Policies{Default: relay.DeadLetter},
		DeadLetters: deadletter.Builder{Topic: letters, Slot: "s", Columns: deadletter.Columns{
			ID: "id", Key: "aggregate_id", Type: "event_type", Payload: "payload",
		}},
	}
}

func bigRow(id string) *pgoutput.Message {
	m := row(id)
	m.Tuple[4].Data = []byte(strings.Repeat("x", 10_000))
	return m
}

func header(rec *router.Record, name string) string {
	for _, h := range rec.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// A letter holds the slot like any record, and the rows around it keep their order.
func TestADeadLetterIsAcknowledgedLikeAnyRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.ErrorLevel)
		cfg := deadLetterConfig()
		cfg.Logger = zap.New(core)
		s := newStream(begin(100), row("a"), typedRow("b", "no/topic"), row("c"), commit(150))
		g := start(t, cfg, false, opening{at(50), s})
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c"}, g.producer.produced())
		letter := g.producer.records[1]
		require.Equal(t, letters, letter.Topic)
		require.Equal(t, "{}", string(letter.Value))
		require.Equal(t, "illegal_topic", header(&letter, "cdc-outbox-reason"))
		require.Equal(t, "0000000000000064-00000001", header(&letter, "position"))
		require.Equal(t, walAt(50), g.confirmed(), "not before the letter is in Kafka")
		g.producer.ack()
		require.Equal(t, walAt(150), g.confirmed())
		require.EqualValues(t, 1, g.Status().Counts.DeadLettered)
		require.Equal(t, []relay.BadRow{{
			EventID: "b", Type: "created", Action: relay.DeadLetter, Reason: "illegal_topic", LSN: "0/64",
			At: time.Now().UTC(),
		}}, g.Status().Aside)
		require.Equal(t, []telemetry.TopicCount{{Topic: "order.events", Published: 3}}, g.Status().Topics)
		require.Len(t, g.producer.marks, 1)
		require.Equal(t, 1, logs.Len())
		require.Equal(t, "b", logs.All()[0].ContextMap()["event_id"])
		require.Equal(t, "0/64", logs.All()[0].ContextMap()["lsn"])
		ready, why := g.Ready()
		require.True(t, ready, why)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// Transactions end at a Mark: one whose only row is a letter needs it too.
func TestALetterAloneIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startWith(t, deadLetterConfig(), &fakeProducer{auto: true, holdIt: true},
			opening{at(50), newStream(begin(100), typedRow("b", "no/topic"), commit(150))})
		synctest.Wait()
		require.Equal(t, []int{1}, g.producer.marks)
		require.Equal(t, walAt(150), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestAGroupHasAPolicyOfItsOwn(t *testing.T) {
	nullKey := func(id string) *pgoutput.Message {
		m := row(id)
		m.Tuple[2] = pgoutput.Value{Kind: pgoutput.Null}
		return m
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := deadLetterConfig()
		cfg.Policies.Groups = map[router.Group]relay.Policy{
			router.GroupNullKey: relay.Skip, router.GroupUnroutable: "",
			router.GroupTooLarge: relay.Halt,
		}
		g := startWith(t, cfg, &fakeProducer{auto: true, limits: map[string]int{"order.events": 1000}},
			opening{at(50), newStream(begin(100), nullKey("a"), typedRow("b", "no/topic"), bigRow("c"), row("d"),
				commit(150))})
		synctest.Wait()
		require.Equal(t, []string{"b"}, g.producer.produced())
		st := g.Status()
		require.EqualValues(t, 1, st.Counts.Skipped)
		require.Equal(t, "c", st.Halted.EventID)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// The halt for a record that is too large ends when the topic takes it; readiness says which it is and how large.
func TestTooLargeHaltsUntilTheLimitIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startWith(t, Config{}, &fakeProducer{auto: true, limits: map[string]int{"order.events": 1000}},
			opening{at(50), newStream(begin(100), row("a"), commit(150), begin(200), bigRow("b"), row("c"),
				commit(250))})
		synctest.Wait()
		require.Equal(t, []string{"a"}, g.producer.produced())
		require.Equal(t, walAt(150), g.confirmed())
		ready, why := g.Ready()
		require.False(t, ready)
		for _, part := range []string{"event b", "0/C8", "1000", "order.events"} {
			require.Contains(t, why, part)
		}
		since := g.Status().Halted.Since
		time.Sleep(time.Minute)
		require.Equal(t, since, g.Status().Halted.Since)
		g.producer.setLimit("order.events", 100_000)
		time.Sleep(2 * lookAgain)
		require.Equal(t, []string{"a", "b", "c"}, g.producer.produced())
		require.Equal(t, walAt(250), g.confirmed())
		require.Nil(t, g.Status().Halted)
		ready, why = g.Ready()
		require.True(t, ready, why)
		records, bytes := g.window.InUse()
		require.Zero(t, records)
		require.Zero(t, bytes)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// TestAPartitionThatDoesNotExist: a row for a partition that its topic does not have is a bad row like others.
//
// Bug (producer): A row for a partition that its topic does not have was waited for, whatever `router.on_bad_row` said.
// Cost: everything stopped, without an alert, and the advice moved every key.
func TestAPartitionThatDoesNotExist(t *testing.T) {
	for policy, want := range map[relay.Policy][]string{
		relay.Halt: {"a"}, relay.Skip: {"a", "c"}, relay.DeadLetter: {"a", "b", "c"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := deadLetterConfig()
			cfg.Policies.Default = policy
			g := startWith(t, cfg, &fakeProducer{auto: true, stray: "b"},
				opening{at(50), newStream(begin(100), row("a"), row("b"), row("c"), commit(150))})
			synctest.Wait()
			require.Equal(t, want, g.producer.produced())
			ready, why := g.Ready()
			require.Equal(t, policy != relay.Halt, ready)
			if policy == relay.Halt {
				require.Contains(t, why, "partition 7")
				halted := g.Status().Halted
				require.Equal(t, "no_partition", halted.Reason)
				require.Contains(t, halted.Next, "moves keys")
				require.NotContains(t, halted.Next, "kafka-topics", "no command that moves keys")
				g.producer.mu.Lock()
				g.producer.stray = "" // partitions were added
				g.producer.mu.Unlock()
				time.Sleep(2 * lookAgain)
				require.Equal(t, []string{"a", "b", "c"}, g.producer.produced())
				require.Nil(t, g.Status().Halted)
			} else {
				require.Equal(t, "no_partition", g.Status().Aside[0].Reason)
			}
			require.Equal(t, walAt(150), g.confirmed())
			records, _ := g.window.InUse()
			require.Zero(t, records)
			g.stop()
			require.NoError(t, <-g.done)
		})
	}
}

func TestAStopEndsTheWaitForALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(begin(100), row("a"), bigRow("b"), commit(150))
		g := startWith(t, Config{}, &fakeProducer{auto: true, limits: map[string]int{"order.events": 1000}},
			opening{at(50), s})
		synctest.Wait()
		g.stop()
		<-s.finished
		require.NoError(t, <-g.done)
		require.Equal(t, walAt(50), g.confirmed())
	})
}

// What is too large for its topic is mostly too large for the dead-letter topic as well: then a pointer goes there. If
// not even that is taken, nothing is dropped.
func TestATooLargeLetterBecomesAPointer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startWith(t, deadLetterConfig(), &fakeProducer{
			auto:   true,
			limits: map[string]int{"order.events": 1000, letters: 50},
		},
			opening{at(50), newStream(begin(100), bigRow("a"), row("b"), commit(150))})
		synctest.Wait()
		require.Empty(t, g.producer.produced())
		require.Equal(t, letters, g.halted.Message[strings.Index(g.halted.Message, letters):][:len(letters)])
		g.producer.setLimit(letters, 2000)
		time.Sleep(2 * lookAgain)
		require.Equal(t, []string{"a", "b"}, g.producer.produced())
		letter := g.producer.records[0]
		require.Equal(t, "pointer", header(&letter, "cdc-outbox-dead-letter"))
		require.Contains(t, string(letter.Value), `"id":"a"`)
		require.Equal(t, "order.events", header(&letter, "cdc-outbox-topic"))
		require.Equal(t, walAt(150), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// What the broker refuses after it was taken ends the session. It is read again, and refused before it is taken: the
// policy applies, with the row at hand.
//
// Bug (letters): An event with a header of a letter's name, refused late, was treated as a letter: a pointer went to
// the event's topic in its place. Cost: the event was lost, and its topic got a foreign record.
func TestRefusedLater(t *testing.T) {
	for policy, want := range map[relay.Policy][]string{
		relay.Halt: {"a", "big", "c", "a"}, relay.Skip: {"a", "big", "c", "a", "c"},
		relay.DeadLetter: {"a", "big", "c", "a", "big", "c"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := func() *fakeStream {
					return newStream(begin(100), row("a"), bigRow("big"), row("c"), commit(150))
				}
				cfg := deadLetterConfig()
				cfg.Policies.Default = policy
				g := startWith(t, cfg, &fakeProducer{limits: map[string]int{}}, opening{at(50), script()},
					opening{at(50), script()})
				synctest.Wait()
				g.producer.setLimit("order.events", 500)
				g.onSessionEnd(fmt.Errorf("%w: a record that Kafka refuses", sink.ErrSessionOver))
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, want, g.producer.produced())
				switch h := g.Status().Halted; policy {
				case relay.Halt:
					require.Equal(t, "big", h.EventID)
				case relay.DeadLetter:
					letter := g.producer.records[4]
					require.Equal(t, letters, letter.Topic)
					require.NotEqual(t, "record", header(&letter, "cdc-outbox-dead-letter"), "of the row")
				}
				g.producer.ack()
				g.stop()
				require.NoError(t, <-g.done)
			})
		})
	}
}
