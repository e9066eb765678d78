// Package natsserver runs NATS servers with JetStream in the process of a test, alone or as a cluster.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Server is a server that can be stopped and started again at its address, with its files.
type Server struct {
	tb      testing.TB
	options server.Options
	running *server.Server
}

// patience is how long servers and clusters may take on a busy machine.
const patience = 20 * time.Second

// Start starts a server that ends with the test. change, if not nil, changes its options.
func Start(tb testing.TB, change func(*server.Options)) *Server {
	tb.Helper()
	s := &Server{tb: tb, options: server.Options{
		ServerName: "alone", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: tb.TempDir(),
		NoLog: true, NoSigs: true,
	}}
	if change != nil {
		change(&s.options)
	}
	s.Up()
	tb.Cleanup(s.Down)
	return s
}

// Up starts the server.
func (s *Server) Up() {
	s.tb.Helper()
	options := s.options
	running, err := server.NewServer(&options)
	require.NoError(s.tb, err)
	running.Start()
	require.True(s.tb, running.ReadyForConnections(patience))
	s.running = running
	if s.options.Port == server.RANDOM_PORT {
		s.options.Port = running.Addr().(*net.TCPAddr).Port
	}
}

// Down stops the server; what it has acknowledged is in its files.
func (s *Server) Down() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
}

// URL returns the address.
func (s *Server) URL() string {
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.options.Port))
}

// Running returns the server, for what only it can do.
func (s *Server) Running() *server.Server { return s.running }

// Reload changes the options of a running server.
func (s *Server) Reload(change func(*server.Options)) {
	s.tb.Helper()
	change(&s.options)
	options := s.options
	require.NoError(s.tb, s.running.ReloadOptions(&options))
}

// Cluster starts three servers with one JetStream.
func Cluster(tb testing.TB) []*Server {
	tb.Helper()
	const size = 3
	listeners := make([]net.Listener, size)
	routes := ""
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(tb, err)
		listeners[i] = l
		routes += ",nats://" + l.Addr().String()
	}
	servers := make([]*Server, size)
	for i := range servers {
		port := listeners[i].Addr().(*net.TCPAddr).Port
		require.NoError(tb, listeners[i].Close())
		servers[i] = &Server{tb: tb, options: server.Options{
			ServerName: fmt.Sprintf("n%d", i+1), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
			StoreDir: tb.TempDir(), NoLog: true, NoSigs: true, Routes: server.RoutesFromStr(routes[1:]),
			Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: port},
		}}
		s := servers[i]
		running, err := server.NewServer(&s.options)
		require.NoError(tb, err)
		s.running = running
		go running.Start()
		tb.Cleanup(s.Down)
	}
	for _, s := range servers {
		require.True(tb, s.running.ReadyForConnections(patience))
		s.options.Port = s.running.Addr().(*net.TCPAddr).Port
	}
	require.Eventually(tb, func() bool {
		for _, s := range servers {
			if !s.running.JetStreamIsCurrent() {
				return false
			}
		}
		return servers[0].running.JetStreamEnabled() && leads(servers)
	}, patience, 20*time.Millisecond)
	return servers
}

func leads(servers []*Server) bool {
	for _, s := range servers {
		if s.running != nil && s.running.JetStreamIsLeader() {
			return true
		}
	}
	return false
}

// noPeers is "no suitable peers for placement": the cluster has a leader, who does not know all others yet.
const noPeers = 10005

// Stream creates a stream, and returns it and the API of the server's account.
func Stream(tb testing.TB, url string, c jetstream.StreamConfig) (jetstream.Stream, jetstream.JetStream) {
	tb.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	require.NoError(tb, err)
	tb.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(tb, err)
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for {
		stream, err := js.CreateStream(ctx, c)
		if err == nil {
			return stream, js
		}
		var refused *jetstream.APIError
		if errors.As(err, &refused) && refused.Code < 500 && refused.ErrorCode != noPeers || ctx.Err() != nil {
			require.NoError(tb, err)
		}
		tb.Logf("the stream is not there yet: %v", err) // a cluster takes a while
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Messages returns all messages of the stream, in order.
func Messages(tb testing.TB, stream jetstream.Stream) (all []jetstream.Msg) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	info, err := stream.Info(ctx)
	require.NoError(tb, err)
	if info.State.Msgs == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	require.NoError(tb, err)
	messages, err := consumer.Messages()
	require.NoError(tb, err)
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		require.NoError(tb, err)
		all = append(all, m)
		place, err := m.Metadata()
		require.NoError(tb, err)
		if place.Sequence.Stream == info.State.LastSeq {
			return all
		}
	}
}
