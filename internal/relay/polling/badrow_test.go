package polling

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// A row that cannot be published stops its lane only, and the lane goes on when it was corrected or deleted.
func TestRelayHaltsLane(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
	x := b.start()
	bad := func(key string, n int) {
		_, err := b.conn.Exec(t.Context(),
			`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('ä', $1, 'x',
				jsonb_build_object('n', $2::int))`, key, n)
		require.NoError(t, err)
	}
	b.insert(b.conn, "k", 1)
	bad("k", 2)
	b.insert(b.conn, "k", 3)
	bad("j", 1)
	b.insert(b.conn, "j", 2)
	b.insert(b.conn, "another", 1)
	x.await("all lanes go on as far as they can", func() bool { return b.unpublished() == 4 })
	require.Len(t, x.fake.sent(), 2)
	x.await("both are halted", func() bool { return len(x.r.Status().Halted) == 2 })
	st := x.r.Status()
	require.False(t, st.Ready)
	require.Equal(t, relay.Halted, st.State.Name)
	require.Contains(t, st.ReadyReason, "2 of 64 lanes halted")
	b.db.Exec(t, "UPDATE outbox SET aggregate_type = 'order' WHERE aggregate_id = 'k'")
	b.db.Exec(t, "DELETE FROM outbox WHERE aggregate_id = 'j' AND aggregate_type = 'ä'")
	x.awaitPublished()
	x.await("ready again", func() bool { ok, _ := x.r.Ready(); return ok })
	require.NoError(t, x.finish())
	var k []string
	for _, s := range x.fake.sent() {
		if s.key == "k" {
			k = append(k, s.value)
		}
	}
	require.Equal(t, []string{`{"n": 1}`, `{"n": 2}`, `{"n": 3}`}, k)
	require.Equal(t, 2, x.logs.FilterMessageSnippet("halted at an outbox row").Len(), "each is reported once")
}

func TestRelayBadRowsByPolicy(t *testing.T) {
	for policy, want := range map[relay.Policy]int{relay.Skip: 2, relay.DeadLetter: 3} {
		t.Run(string(policy), func(t *testing.T) {
			b := newBed(t)
			b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
			b.insert(b.conn, "k", 1)
			b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('ä', 'k', 'x')`)
			b.insert(b.conn, "k", 2)
			x := b.start(func(c *Config) { c.Policies.Default = policy })
			x.awaitPublished()
			require.NoError(t, x.finish())
			require.Len(t, x.fake.sent(), want)
			if policy == relay.DeadLetter {
				require.Equal(t, "letters", x.fake.sent()[1].topic)
				require.Equal(t, uint64(1), x.r.Status().Counts.DeadLettered)
			}
		})
	}
}

func TestRelayRecordTooLargeForTopic(t *testing.T) {
	b := newBed(t)
	x := b.start()
	x.fake.refusing(func(r *router.Record) error {
		if string(r.Key) == "k" {
			return &sink.RefusedError{Topic: r.Topic, Bytes: 2000, Limit: 1000, Reason: sink.TooLarge}
		}
		return nil
	})
	b.insert(b.conn, "k", 1, 2)
	b.insert(b.conn, "another", 1)
	x.await("halted", func() bool { return len(x.r.Status().Halted) == 1 && len(x.fake.sent()) == 1 })
	require.Contains(t, x.r.Status().Halted[0].Next, "max.message.bytes")
	x.fake.refusing(nil)
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
}
