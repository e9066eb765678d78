package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

func TestRecordsAreStoredInOrderAndAcknowledgedOnce(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	n := size(9000) // more than may be unanswered
	r.produceAll(1, n)
	r.drain()
	require.Equal(t, count(n), r.tickets())
	requireExactly(t, stream, n)
	bytes := int64(0)
	for i := range n {
		bytes += int64(event(i + 1).Size())
	}
	require.Equal(t, bytes, r.bytes)

	m := natsserver.Messages(t, stream)[41]
	require.Equal(t, "outbox.t0", m.Subject())
	require.Equal(t, "e-42", m.Headers().Get("id"))
	require.Equal(t, "e-42", m.Headers().Get("Nats-Msg-Id"))
	require.Equal(t, "Placed", m.Headers().Get("type"))
	require.Equal(t, "k0", m.Headers().Get("Outbox-Key"))
	require.Equal(t, "2030-03-17T17:46:40.123Z", m.Headers().Get("Outbox-Timestamp"))

	stored, found, err := r.Latest(within(t), owner)
	require.NoError(t, err)
	require.True(t, found)
	want := at(n)
	want.Time = want.Time.UTC()
	require.Equal(t, sink.Stored{Position: want, SystemID: "7391"}, stored)
	require.NoError(t, r.Keep(within(t)))
}

// A server that is killed under load, and comes back, has each event once.
func TestServerRestarts(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	n, rounds := size(6000), uint64(3)
	for i := range rounds {
		r.produceAll(i*n/rounds+1, (i+1)*n/rounds)
		s.Down()
		s.Up()
	}
	r.drain()
	require.Equal(t, count(n), r.tickets(), "a connection that breaks does not end the session")
	requireExactly(t, stream, n)
}

// Connections that are cut under load lose answers, not events.
func TestConnectionsAreCut(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}, ClientName: "relay"})
	require.Zero(t, r.begin())
	n := size(8000)
	for i := range n {
		require.NoError(t, r.produce(i+1))
		if i%500 == 250 {
			cut(t, s.Running(), "relay")
		}
	}
	r.drain()
	require.Equal(t, count(n), r.tickets())
	requireExactly(t, stream, n)
}

func cut(t *testing.T, s *server.Server, name string) {
	list, err := s.Connz(nil)
	require.NoError(t, err)
	for _, c := range list.Conns {
		if c.Name == name {
			_ = s.DisconnectClientByID(c.Cid)
		}
	}
}

// Two instances that both believe to be the owner, which the source's slot rules out except for moments, write each
// event once and in order all the same.
func TestTwoOwners(t *testing.T) {
	s := natsserver.Start(t, nil)
	for seed := range size(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := streamConfig()
		c.Name, c.Subjects = "SEED", []string{"outbox.*"}
		stream, js := natsserver.Stream(t, s.URL(), c)
		instances := []*relay{
			open(t, Cluster{Servers: []string{s.URL()}, Stream: "SEED"}),
			open(t, Cluster{Servers: []string{s.URL()}, Stream: "SEED"}),
		}
		const n = 300
		next := [2]uint64{instances[0].begin() + 1, instances[1].begin() + 1}
		for next[0] <= n && next[1] <= n {
			i := rng.IntN(2)
			for range rng.IntN(40) {
				if next[i] > n {
					break
				}
				err := instances[i].produce(next[i])
				next[i]++
				if err != nil {
					require.True(t, errors.Is(err, sink.ErrFenced) || errors.Is(err, sink.ErrSessionOver), err)
					instances[i].Abandon()
					next[i] = instances[i].begin() + 1
				}
			}
		}
		instances[rng.IntN(2)].publish(n)
		requireExactly(t, stream, n)
		for _, r := range instances {
			r.close()
		}
		require.NoError(t, js.DeleteStream(within(t), "SEED"))
	}
}

// An owner that others have followed learns it, and the next session knows how far they came.
func TestFenced(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	first, second := open(t, Cluster{Servers: []string{s.URL()}}), open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, first.begin())
	first.produceAll(1, 10)
	first.drain()
	require.EqualValues(t, 10, second.begin())
	require.NoError(t, first.Keep(within(t)), "nothing was written since")
	second.produceAll(11, 20)
	second.drain()
	require.ErrorIs(t, first.Keep(within(t)), sink.ErrFenced)
	require.ErrorIs(t, first.produce(11), sink.ErrFenced)
	require.ErrorIs(t, first.ended, sink.ErrFenced)
	first.Abandon()
	require.EqualValues(t, 20, first.begin())
	first.produceAll(21, 30)
	first.drain()
	second.produceAll(31, 31)
	require.ErrorIs(t, second.Drain(within(t)), sink.ErrFenced)
	require.Equal(t, sink.Dropped{Records: 1, Bytes: int64(event(31).Size())}, second.Abandon())
	requireExactly(t, stream, 30)
}

// The window of duplicates is about ids, and two rows may have the same one: with two tables, or after a repair.
func TestAnIDThatTheStreamHas(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	for n := uint64(1); n <= 100; n++ {
		rec := event(n)
		rec.Headers[0].Value = []byte("same")
		require.NoError(t, r.ProduceAt(t.Context(), rec, n, at(n)))
	}
	r.drain()
	require.Equal(t, count(100), r.tickets())
	requireExactly(t, stream, 100)
	for _, m := range natsserver.Messages(t, stream) {
		require.Equal(t, "same", m.Headers().Get("id"), "the consumer's id is the row's")
	}
}

func TestAnotherWriter(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, js := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	for n := uint64(10); n <= 100; n += 10 {
		r.publish(n)
		_, err := js.Publish(within(t), "outbox.other", []byte("foreign"))
		require.NoError(t, err)
	}
	requireExactly(t, stream, 100)
	r.produceAll(101, 101)
	require.ErrorIs(t, r.Drain(within(t)), sink.ErrSessionOver)
	r.Abandon()
	require.EqualValues(t, 100, r.begin(), "the position is looked for before other messages")
	require.NotEmpty(t, r.logs.FilterMessageSnippet("something else writes into the stream").All())
}

func TestSubjectThatTheStreamLacks(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, js := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	r.produceAll(1, 5)
	rec := event(6)
	rec.Topic = "letters"
	require.NoError(t, r.ProduceAt(t.Context(), rec, 6, at(6)))
	r.produceAll(7, 9)
	trouble := r.waits(sink.TopicMissing)
	require.Equal(t, `subject "letters"`, trouble.Object)
	require.Equal(t, []string{`nats stream edit OUTBOX --subjects='outbox.*,letters'`}, trouble.Commands)
	c := streamConfig()
	c.Subjects = append(c.Subjects, "letters")
	_, err := js.UpdateStream(within(t), c)
	require.NoError(t, err)
	r.drain()
	require.Empty(t, r.Trouble())
	require.Equal(t, count(9), r.tickets())
	requireExactly(t, stream, 9)
}

func TestStreamThatIsMissing(t *testing.T) {
	s := natsserver.Start(t, nil)
	r := open(t, Cluster{Servers: []string{s.URL()}})
	begun := make(chan uint64)
	go func() { begun <- r.begin() }()
	require.Contains(t, r.waits(sink.TopicMissing).Commands[0], "nats stream add OUTBOX")
	stream, js := natsserver.Stream(t, s.URL(), streamConfig())
	require.Zero(t, <-begun)
	r.produceAll(1, 3)
	r.drain()
	requireExactly(t, stream, 3)

	creates := open(t, Cluster{
		Servers: []string{s.URL()}, Stream: "MADE", Create: &Creation{Subjects: []string{"made.*"}, Replicas: 1},
	})
	require.Zero(t, creates.begin())
	made, err := js.Stream(within(t), "MADE")
	require.NoError(t, err)
	require.Equal(t, []string{"made.*"}, made.CachedInfo().Config.Subjects)
	require.Equal(t, jetstream.FileStorage, made.CachedInfo().Config.Storage)
}

// A row that is too large is refused before it is taken, by the limit of the moment.
func TestTooLarge(t *testing.T) {
	s := natsserver.Start(t, nil)
	c := streamConfig()
	c.MaxMsgSize = 4000
	stream, js := natsserver.Stream(t, s.URL(), c)
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	rec := event(1)
	rec.Value = make([]byte, 5000)
	var refused *sink.RefusedError
	require.ErrorAs(t, r.ProduceAt(t.Context(), rec, 1, at(1)), &refused)
	require.Equal(t, sink.TooLarge, refused.Reason)
	require.Equal(t, 4000, refused.Limit)
	c.MaxMsgSize = 8000
	_, err := js.UpdateStream(within(t), c)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.ProduceAt(t.Context(), rec, 1, at(1)) == nil }, patience,
		5*time.Millisecond)
	r.drain()

	// Lowered while a record is in transit: the session ends, and the record is refused when sent again.
	s.Down()
	require.NoError(t, r.ProduceAt(t.Context(), rec, 2, at(2)))
	s.Up()
	c.MaxMsgSize = 4000
	require.Eventually(t, func() bool { // a question that meets the restart has no answer
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = js.UpdateStream(ctx, c)
		return err == nil
	}, patience, time.Millisecond)
	if err := r.Drain(within(t)); err != nil { // or the record was faster
		require.ErrorIs(t, err, sink.ErrSessionOver)
		r.Abandon()
		require.EqualValues(t, 1, r.begin())
		require.ErrorAs(t, r.ProduceAt(t.Context(), rec, 2, at(2)), &refused)
	}
	require.LessOrEqual(t, len(natsserver.Messages(t, stream)), 2)

	rec.Value = make([]byte, 2<<20)
	require.ErrorAs(t, r.ProduceAt(t.Context(), rec, 3, at(3)), &refused)
	require.Contains(t, refused.Error(), "max_payload of the server 1048576")
}

// After a purge the session goes on; a new one does not know the position, and says so.
func TestPurge(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	r.produceAll(1, 5)
	r.drain()
	require.NoError(t, stream.Purge(within(t)))
	r.produceAll(6, 8)
	r.drain()
	require.Len(t, natsserver.Messages(t, stream), 3)
	require.NoError(t, stream.Purge(within(t)))
	r.Abandon()
	require.Zero(t, r.begin())
	require.NotEmpty(t, r.logs.FilterMessageSnippet("the last messages of the stream were removed").All())
	r.produceAll(9, 9)
	r.drain()
}

// A message that was stored at the place of a record, and removed, is not taken for the record: whose it was is not
// known.
//
// Bug (producer): With `sink: nats`, a record whose place another writer's message had taken counted as stored if the
// stream was purged meanwhile. Cost: the event is in no stream, and its row is confirmed.
func TestPurgeOfAnotherWriter(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, js := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	_, err := js.Publish(within(t), "outbox.other", []byte("foreign"))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(within(t)))
	r.produceAll(1, 1)
	require.ErrorIs(t, r.Drain(within(t)), sink.ErrSessionOver)
	require.Empty(t, r.tickets())
	r.publish(3)
	requireExactly(t, stream, 3)
}

// A stream that is made again is another one, although it has the name.
func TestStreamMadeAgain(t *testing.T) {
	s := natsserver.Start(t, nil)
	_, js := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	r.produceAll(1, 5)
	r.drain()
	require.NoError(t, js.DeleteStream(within(t), streamOfTests))
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	r.produceAll(6, 6)
	require.ErrorIs(t, r.Drain(within(t)), sink.ErrSessionOver)
	r.Abandon()
	require.Zero(t, r.begin())
	require.Empty(t, natsserver.Messages(t, stream))
}

func TestLogin(t *testing.T) {
	s := natsserver.Start(t, func(o *server.Options) { o.Username, o.Password = "u", "p" })
	r := open(t, Cluster{Servers: []string{s.URL()}, Login: loginOfU("wrong")})
	trouble := r.waits(sink.NotAuthenticated)
	require.NotContains(t, trouble.Sentence, "wrong")
	r.close()
	r = open(t, Cluster{Servers: []string{s.URL()}, Login: loginOfU("p")})
	_, err := r.connection(within(t))
	require.NoError(t, err)
	require.Empty(t, r.Trouble())
}

func TestRecordsThatAMessageCannotCarry(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	for name, change := range map[string]func(*router.Record){
		"no topic":           func(r *router.Record) { r.Topic = "" },
		"wildcard":           func(r *router.Record) { r.Topic = "outbox.*" },
		"empty part":         func(r *router.Record) { r.Topic = "a..events" },
		"the server's":       func(r *router.Record) { r.Topic = "$JS.API.STREAM.PURGE.OUTBOX" },
		"purges the stream":  func(r *router.Record) { r.Headers[1].Key = "nats-rollup" },
		"another's position": func(r *router.Record) { r.Headers[1].Key = "Outbox-Position" },
		"name with a colon":  func(r *router.Record) { r.Headers[1].Key = "a:b" },
		"long header":        func(r *router.Record) { r.Headers[1].Value = make([]byte, 70_000) },
	} {
		t.Run(name, func(t *testing.T) {
			rec := event(1)
			change(rec)
			var refused *sink.RefusedError
			require.ErrorAs(t, r.ProduceAt(t.Context(), rec, 1, at(1)), &refused)
			require.NotEmpty(t, refused.Error())
		})
	}
	tombstone := event(1)
	tombstone.Value, tombstone.Key = nil, nil
	tombstone.Headers = append(tombstone.Headers, router.Header{Key: "none"})
	require.NoError(t, r.ProduceAt(t.Context(), tombstone, 1, at(1)))
	r.drain()
	m := natsserver.Messages(t, stream)[0]
	require.Empty(t, m.Data())
	require.Equal(t, "true", m.Headers().Get("Outbox-Tombstone"))
	require.NotContains(t, m.Headers(), "none", "a header without a value")
	require.NotContains(t, m.Headers(), "Outbox-Key")

	lines := event(2)
	lines.Key, lines.Headers[1].Value = []byte(" 5% of\n"), []byte("a\r\nNats-Rollup: all")
	require.NoError(t, r.ProduceAt(t.Context(), lines, 2, at(2)))
	r.drain()
	m = natsserver.Messages(t, stream)[1]
	require.Equal(t, "Outbox-Key,type", m.Headers().Get("Outbox-Escaped"))
	key, err := url.PathUnescape(m.Headers().Get("Outbox-Key"))
	require.NoError(t, err)
	require.Equal(t, " 5% of\n", key)
	value, err := url.PathUnescape(m.Headers().Get("type"))
	require.NoError(t, err)
	require.Equal(t, "a\r\nNats-Rollup: all", value)
}

// Three servers: the leader of the stream is stopped again and again under load.
func TestClusterLosesLeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers")
	}
	servers := natsserver.Cluster(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	c := streamConfig()
	c.Replicas = 3
	stream, _ := natsserver.Stream(t, urls[0]+","+urls[1]+","+urls[2], c)
	r := open(t, Cluster{Servers: urls})
	require.Zero(t, r.begin())
	const rounds, each = 4, 3000
	for i := range uint64(rounds) {
		r.produceAll(i*each+1, (i+1)*each)
		leader := leaderOf(t, stream)
		for _, s := range servers {
			if s.Running().Name() == leader {
				s.Down()
				s.Up()
			}
		}
	}
	r.drain()
	require.Equal(t, count(rounds*each), r.tickets())
	requireExactly(t, stream, rounds*each)
}

// leaderOf asks again and again: a question that meets an election has no answer.
func leaderOf(t *testing.T, stream jetstream.Stream) (name string) {
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		info, err := stream.Info(ctx)
		if err == nil && info.Cluster != nil {
			name = info.Cluster.Leader
		}
		return name != ""
	}, patience, time.Millisecond)
	return name
}
