package connector

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

func message(prefix, id string) *pgoutput.Message {
	m := &pgoutput.Message{Kind: pgoutput.KindLogicalMessage}
	m.Logical = pgoutput.LogicalMessage{
		Transactional: true, LSN: 90, Prefix: prefix,
		Content: fmt.Appendf(nil, `{"id":%q,"aggregate_type":"order","aggregate_id":"k","type":"created","payload":{}}`,
			id),
	}
	return m
}

func withMessages(cfg Config) Config {
	cfg.Replication.Messages = []string{"outbox"}
	return cfg
}

func TestMessagesAreRowsAmongTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := func() []*pgoutput.Message {
			return []*pgoutput.Message{
				begin(100), row("a"), message("other", "x"), message("outbox", "b"),
				message("outbox", "c"), row("d"), commit(150),
			}
		}
		g := start(t, withMessages(Config{}), false, opening{at(50), brokenStream(script()[:5]...)},
			opening{at(50), newStream(script()...)})
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c", "d"}, g.producer.produced(), "a broken stream repeats nothing")
		for i, want := range []string{"00000000", "00000001", "00000002", "00000003"} {
			require.Equal(t, "0000000000000064-"+want, string(g.producer.records[i].Headers[2].Value))
		}
		require.EqualValues(t, 2, g.Status().Counts.Messages)
		require.Equal(t, walAt(50), g.confirmed())
		g.producer.ack()
		require.Equal(t, walAt(150), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// Bug (letters): The letter of a message that cannot be read had no id, although log and status named the event. Cost:
// `find` said that the event was never committed.
func TestABadMessageFollowsThePolicy(t *testing.T) {
	bad := message("outbox", "b")
	bad.Logical.Content = []byte(`{"id":"b"`)
	letters := deadletter.Builder{Topic: "letters", Columns: deadletter.Columns{
		ID: "id", Key: "aggregate_id",
		Type: "event_type", Payload: "payload",
	}}
	for policy, want := range map[relay.Policy][]string{
		relay.Halt: {"a"}, relay.Skip: {"a", "c"},
		relay.DeadLetter: {"a", "b", "c"}, // the letter is found by the id that log and status name
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := start(t, withMessages(Config{Policies: relay.Policies{Default: policy}, DeadLetters: letters}),
					true,
					opening{at(50), newStream(begin(100), row("a"), bad, message("outbox", "c"), commit(150))})
				synctest.Wait()
				require.Equal(t, want, g.producer.produced())
				if policy == relay.Halt {
					require.Equal(t, relay.Halted, g.Status().State.Name)
					require.Equal(t, "b", g.Status().Halted.EventID)
					require.Equal(t, walAt(50), g.confirmed())
				} else {
					require.Equal(t, walAt(150), g.confirmed())
				}
				if policy == relay.DeadLetter {
					require.Equal(t, `{"id":"b"`, string(g.producer.records[1].Value))
				}
				g.stop()
				require.NoError(t, <-g.done)
			})
		})
	}
}

// TestAMessageOutsideOfATransactionHaltsNothing: any role may emit one, and no transaction promised it,
// whatever the policy for bad rows is.
//
// Bug (setup): A logical message outside of a transaction halted the connector, and every role may emit one. Cost: an
// outage that any role can cause.
func TestAMessageOutsideOfATransactionHaltsNothing(t *testing.T) {
	for _, policy := range []relay.Policy{relay.Halt, relay.Skip, relay.DeadLetter} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				loose := message("outbox", "b")
				loose.Logical.Transactional = false
				g := start(t, withMessages(Config{Policies: relay.Policies{Default: policy}}), true,
					opening{at(50), newStream(loose, begin(100), row("a"), loose, commit(150))})
				synctest.Wait()
				ready, why := g.Ready()
				require.True(t, ready, why)
				require.Equal(t, []string{"a"}, g.producer.produced())
				require.EqualValues(t, 2, g.Status().Counts.Skipped)
				require.Equal(t, walAt(150), g.confirmed())
				g.stop()
				require.NoError(t, <-g.done)
			})
		})
	}
}
