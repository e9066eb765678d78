// Package pooler puts something that speaks Postgres' protocol between a client and a server: a stand-in that answers a
// login as poolers and managed services were seen to, and the real PgBouncer where it is installed.
package pooler

import (
	"io"
	"net"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Behaviour is how a stand-in treats a login. The zero value is a plain forwarder.
type Behaviour struct {
	// Refuse lists startup parameters that are answered as PgBouncer answers those it does not know (recorded from 1.18
	// and 1.24: FATAL 08P01, "unsupported startup parameter: NAME"). Before 1.23 "replication" is one of them.
	Refuse []string
	// Drop lists startup parameters that the server never gets to see. Without "replication" it opens an ordinary
	// session, as through Supavisor.
	Drop []string
	// PID is what BackendKeyData names in place of the server's own, as PgBouncer, Supavisor and Neon's proxy do. 0:
	// left as it is.
	PID uint32
}

// StandIn listens on a free port of 127.0.0.1. The server that it connects to must let every user in without a
// password.
type StandIn struct {
	upstream  string
	behaviour Behaviour
	listener  net.Listener
	wg        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// Start starts a stand-in in front of the upstream address. Close it.
func Start(upstream string, b Behaviour) (*StandIn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &StandIn{upstream: upstream, behaviour: b, listener: l, conns: map[net.Conn]struct{}{}}
	s.wg.Go(s.accept)
	return s, nil
}

// Addr is what clients connect to.
func (s *StandIn) Addr() string { return s.listener.Addr().String() }

// Close ends the listener and all connections, and waits for every goroutine.
func (s *StandIn) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *StandIn) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.serve(conn) })
	}
}

// keep lets Close end the connection; false: it is too late.
func (s *StandIn) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *StandIn) drop(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	_ = conn.Close()
}

func (s *StandIn) serve(client net.Conn) {
	if !s.keep(client) {
		return
	}
	defer s.drop(client)
	startup := s.login(client)
	if startup == nil {
		return
	}
	server, err := net.Dial("tcp", s.upstream)
	if err != nil || !s.keep(server) {
		return
	}
	defer s.drop(server)
	if !s.greet(client, server, startup) {
		return
	}
	s.wg.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
}

// login reads the startup packet, refuses TLS, and returns what the server is to see of it; nil: that was all.
func (s *StandIn) login(client net.Conn) *pgproto3.StartupMessage {
	b := pgproto3.NewBackend(client, client)
	for {
		msg, err := b.ReceiveStartupMessage()
		if err != nil {
			return nil
		}
		switch m := msg.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := client.Write([]byte{'N'}); err != nil {
				return nil
			}
		case *pgproto3.StartupMessage:
			for name := range m.Parameters {
				if slices.Contains(s.behaviour.Refuse, name) {
					b.Send(&pgproto3.ErrorResponse{
						Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01",
						Message: "unsupported startup parameter: " + name,
					})
					_ = b.Flush()
					return nil
				}
			}
			for _, name := range s.behaviour.Drop {
				delete(m.Parameters, name)
			}
			return m
		default: // a request to cancel
			return nil
		}
	}
}

// greet logs in at the server and hands its greeting on, up to where the session begins.
func (s *StandIn) greet(client, server net.Conn, startup *pgproto3.StartupMessage) bool {
	f := pgproto3.NewFrontend(server, server)
	f.Send(startup)
	if f.Flush() != nil {
		return false
	}
	b := pgproto3.NewBackend(client, client)
	for {
		msg, err := f.Receive()
		if err != nil {
			return false
		}
		if key, ok := msg.(*pgproto3.BackendKeyData); ok && s.behaviour.PID != 0 {
			key.ProcessID = s.behaviour.PID
		}
		b.Send(msg)
		switch msg.(type) {
		case *pgproto3.ReadyForQuery:
			return b.Flush() == nil
		case *pgproto3.ErrorResponse:
			_ = b.Flush()
			return false
		}
	}
}
