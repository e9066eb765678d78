package walsender

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
)

// session is one backend.
type session struct {
	server  *Server
	conn    *network.Conn
	backend *pgproto3.Backend
	pid     int
	params  map[string]string // of the startup message, and what set_config changed
	client  map[string]string // of the startup message alone
	txn     *polledTxn        // nil: none is open. The server's lock protects it
	kept    map[int]bool      // lanes whose locks the session itself has; likewise

	once  sync.Once
	ended chan struct{} // closed when the session is to end
	said  chan struct{} // closed after that, when the error is sent
}

// failure is an error that a session reports.
type failure struct{ *pgproto3.ErrorResponse }

func (f failure) Error() string { return f.Code + " " + f.Message }

func refuse(code, message string) failure {
	return failure{&pgproto3.ErrorResponse{
		Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: message,
	}}
}

func fatal(code, message string) failure {
	return failure{&pgproto3.ErrorResponse{
		Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: message,
	}}
}

// Serve is one connection, from the startup message on.
func (s *Server) Serve(conn *network.Conn) {
	c := &session{
		server: s, conn: conn, backend: pgproto3.NewBackend(conn, conn), ended: make(chan struct{}),
		said: make(chan struct{}),
	}
	defer c.close()
	first, err := c.backend.ReceiveStartupMessage()
	if err != nil {
		return
	}
	startup, ok := first.(*pgproto3.StartupMessage)
	if !ok { // a cancel request: nothing that is worth it runs for long
		return
	}
	c.params, c.client = startup.Parameters, maps.Clone(startup.Parameters)
	if !s.admit(c) {
		c.backend.Send(fatal("57P03", "the database system is starting up").ErrorResponse)
		_ = c.backend.Flush()
		return
	}
	defer s.forget(c)
	c.backend.Send(&pgproto3.AuthenticationOk{})
	c.backend.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "15.0"})
	c.backend.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	c.backend.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	c.backend.Send(&pgproto3.BackendKeyData{ProcessID: uint32(c.pid), SecretKey: []byte{0, 0, 0, 1}})
	c.ready()
	if c.backend.Flush() != nil {
		return
	}
	c.serve()
}

func (s *Server) admit(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		return false
	}
	s.lastPID++
	c.pid = s.lastPID
	s.sessions[c.pid] = c
	return true
}

func (s *Server) forget(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c.pid)
	c.finish(false)
	c.letGo()
	if s.holder == c.pid {
		s.holder = 0
		s.say("slot released by %d", c.pid)
	}
}

// close closes the connection, where the session is ended with an error after that error.
func (c *session) close() {
	select {
	case <-c.ended:
		<-c.said
	default:
	}
	_ = c.conn.Close()
}

// end ends the session with an error.
func (c *session) end(f failure) {
	c.once.Do(func() {
		defer close(c.said)
		close(c.ended)
		b, err := f.Encode(nil)
		if err == nil {
			_ = c.conn.SetWriteDeadline(time.Now())
			_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.conn.Write(b)
		}
		_ = c.conn.Close()
		c.server.forget(c)
	})
}

// crash ends the session without a word. A statement of it that waits is never run.
func (c *session) crash() {
	c.once.Do(func() {
		defer close(c.said)
		close(c.ended)
		c.conn.Reset()
		c.server.forget(c)
	})
}

func (c *session) ready() { c.backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'}) }

// serve answers until the client goes.
func (c *session) serve() {
	x := extended{c: c, prepared: map[string]*statement{}}
	for {
		m, err := c.backend.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			if over := c.query(m.String); over {
				return
			}
		case *pgproto3.Sync:
			x.failed = false
			c.ready()
		case *pgproto3.Terminate:
			return
		default:
			if x.failed {
				continue
			}
			if err := x.handleMessage(m); err != nil {
				c.fail(err)
				x.failed = true
			}
		}
		if c.backend.Flush() != nil {
			return
		}
	}
}

// query is a message of the simple protocol. It reports whether the session is over.
func (c *session) query(sql string) bool {
	var err error
	if strings.HasPrefix(sql, "START_REPLICATION") {
		if err = c.stream(sql); err == nil {
			return true
		}
	} else if c.polls(sql) {
		err = c.poll(sql)
	} else {
		err = c.simple(sql)
	}
	if err != nil {
		c.fail(err)
	}
	c.ready()
	return false
}

// extended is the state of the extended protocol.
type extended struct {
	c        *session
	prepared map[string]*statement
	bound    *statement
	failed   bool // until the next Sync
}

func (x *extended) handleMessage(m pgproto3.FrontendMessage) error {
	switch m := m.(type) {
	case *pgproto3.Parse:
		st, err := x.c.server.parsed(m.Query)
		if err != nil {
			return err
		}
		x.prepared[m.Name] = st
		x.c.backend.Send(&pgproto3.ParseComplete{})
	case *pgproto3.Describe:
		st := x.bound
		if m.ObjectType == 'S' {
			st = x.prepared[m.Name]
			x.c.backend.Send(&pgproto3.ParameterDescription{ParameterOIDs: st.parameters})
		}
		x.c.describe(st)
	case *pgproto3.Bind:
		st := *x.prepared[m.PreparedStatement]
		st.bind(m)
		x.bound = &st
		x.c.backend.Send(&pgproto3.BindComplete{})
	case *pgproto3.Execute:
		return x.c.execute(x.bound)
	case *pgproto3.Close:
		x.c.backend.Send(&pgproto3.CloseComplete{})
	}
	return nil
}

func (c *session) fail(err error) {
	var f failure
	if !errors.As(err, &f) {
		f = refuse("XX000", err.Error())
	}
	c.backend.Send(f.ErrorResponse)
}

// simple runs a statement of the simple protocol.
func (c *session) simple(sql string) error {
	if strings.TrimSpace(sql) == "IDENTIFY_SYSTEM" {
		s := c.server
		s.mu.Lock()
		row := [][]byte{
			[]byte(s.cfg.SystemID), itoa(int(s.state.Timeline)), []byte(s.state.End.String()), []byte(s.cfg.Database),
		}
		s.mu.Unlock()
		c.columns(make([]column, 4))
		c.backend.Send(&pgproto3.DataRow{Values: row})
		c.backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("IDENTIFY_SYSTEM")})
		return nil
	}
	if strings.HasPrefix(sql, "TIMELINE_HISTORY") {
		s := c.server
		s.mu.Lock()
		row := [][]byte{fmt.Appendf(nil, "%08X.history", s.state.Timeline), history(s.state.Past)}
		s.mu.Unlock()
		c.columns(make([]column, 2))
		c.backend.Send(&pgproto3.DataRow{Values: row})
		c.backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("TIMELINE_HISTORY")})
		return nil
	}
	if body := strings.TrimSpace(sql); body == "" || strings.HasPrefix(body, "--") || body == ";" {
		c.backend.Send(&pgproto3.EmptyQueryResponse{})
		return nil
	}
	st, err := c.server.parsed(sql)
	if err != nil {
		return err
	}
	c.describe(st)
	return c.execute(st)
}

func (c *session) describe(st *statement) {
	if len(st.returns) == 0 {
		c.backend.Send(&pgproto3.NoData{})
		return
	}
	c.columns(st.outputs())
}

func (c *session) columns(out []column) {
	var d pgproto3.RowDescription
	for _, o := range out {
		oid := o.oid
		if oid == 0 {
			oid = oidText
		}
		f := pgproto3.FieldDescription{
			Name: []byte("c"), DataTypeOID: oid, DataTypeSize: -1, TypeModifier: -1, Format: o.format,
		}
		if o.name != "" {
			f.Name, f.TableOID = []byte(o.name), relationOID
		}
		d.Fields = append(d.Fields, f)
	}
	c.backend.Send(&d)
}

// execute runs the statement on the server's state and sends what it returns.
func (c *session) execute(st *statement) error {
	rows, tag, err := c.server.run(c, st)
	if err != nil {
		return err
	}
	out := st.outputs()
	for _, row := range rows {
		values := make([][]byte, len(row))
		for i, v := range row {
			values[i] = out[i].encode(v)
		}
		c.backend.Send(&pgproto3.DataRow{Values: values})
	}
	c.backend.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
	return nil
}
