package nats

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

// A server that accepts connections and says nothing does not delay a stop.
func TestServerThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialed := make(chan struct{}, 8)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			dialed <- struct{}{}
		}
	}()
	url := "nats://" + l.Addr().String()
	r := open(t, Cluster{Servers: []string{url, url, url}})
	<-dialed
	began := time.Now()
	r.close()
	require.Less(t, time.Since(began), dialTimeout-time.Second, "the handshake ends with the stop")
	require.ErrorIs(t, r.produce(1), sink.ErrStopped)
	_, _, err = r.Begin(within(t), owner)
	require.ErrorIs(t, err, sink.ErrStopped)
}

// A right that is missing is named, also while the consequence is silence, and the relay goes on when it is granted.
func TestRightThatIsMissing(t *testing.T) {
	if testing.Short() {
		t.Skip("the silence takes seconds")
	}
	allow := []string{"$JS.API.>", "_INBOX.>"}
	users := func(subjects []string) []*server.User {
		return []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: subjects},
		}}}
	}
	s := natsserver.Start(t, func(o *server.Options) { o.Users = users(allow) })
	r := open(t, Cluster{
		Servers: []string{s.URL()}, Create: &Creation{Subjects: []string{"outbox.>"}, Replicas: 1},
		Login: loginOfU("p"),
	})
	require.Zero(t, r.begin())
	r.produceAll(1, 3)
	require.Contains(t, r.waits(sink.NotAuthorized).Sentence, "outbox.t")
	r.report(sink.Trouble{Kind: sink.BrokerUnreachable, Sentence: "the silence that follows"})
	require.Equal(t, sink.NotAuthorized, r.Trouble()[0].Kind)
	s.Reload(func(o *server.Options) { o.Users = users(append(allow, "outbox.>")) })
	r.drain()
	require.Empty(t, r.Trouble())
	require.Equal(t, count(3), r.tickets())
}

// Sessions are given up with messages in transit, and begun again at once: no acknowledgement is for a record that is
// not in the stream, and none is there twice.
func TestSessionsAreGivenUpUnderLoad(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	r := open(t, Cluster{Servers: []string{s.URL()}})
	rng := rand.New(rand.NewPCG(7, 1))
	n := size(3000)
	next := r.begin() + 1
	for next <= n {
		for range 1 + rng.IntN(60) {
			if next > n || r.produce(next) != nil {
				break
			}
			next++
		}
		require.Eventually(t, func() bool { // nothing would be in transit before
			return len(r.tickets()) > 0 || r.over() != nil
		}, patience, 100*time.Microsecond)
		r.Abandon()
		next = r.begin() + 1
		for _, ticket := range r.tickets() {
			require.Less(t, ticket, next, "acknowledged, and not in the stream")
		}
		r.mu.Lock()
		r.acked = nil
		r.mu.Unlock()
	}
	r.publish(n)
	requireExactly(t, stream, n)
}

// What a hostile server answers is bounded, and taken for nothing that it is not.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"stream":"OUTBOX", "seq":7}`))
	f.Add([]byte(`{"stream":"OUTBOX", "seq":7,"duplicate": true}`))
	f.Add([]byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"seq":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := readAnswer(data, streamOfTests)
		if err != nil {
			return
		}
		if a.Error != nil {
			require.LessOrEqual(t, len(a.Error.Error()), 700)
		}
	})
}
