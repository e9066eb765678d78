// Package walsender imitates a PostgreSQL server, as far as the relay speaks with it: sessions that answer the
// statements of the stream and of the checkpoint, a write-ahead log that is a list of transactions, one logical slot,
// and what operators and accidents do to such a server. It runs in a bubble of testing/synctest.
package walsender

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// LSN is a position in the log.
type LSN uint64

func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// Config says what kind of server it is.
type Config struct {
	SystemID, Database, Publication, Slot, Table string

	Version       int           // server_version_num
	SenderTimeout time.Duration // wal_sender_timeout where the session does not set one
	// TransactionTimeout ends a session that decodes one transaction for longer, 17+; 0: off.
	TransactionTimeout time.Duration
	RowTime            time.Duration // that decoding a row takes, in a large transaction

	Polled    bool          // the outbox is polled, and not read from the log
	Standby   string        // application_name of the physical standby, empty for none
	Lag       time.Duration // from a write until the standby has flushed it
	SyncNames string        // synchronous_standby_names
}

// Server is the stand-in. All its methods may be called from anywhere.
type Server struct {
	cfg Config

	mu       sync.Mutex
	state    State
	up       bool
	denied   bool // rights on the checkpoint's table are revoked
	locked   bool // the checkpoint's table
	sessions map[int]*session
	lastPID  int
	holder   int          // backend that reads from the slot, 0: none
	told     map[LSN]bool // by keepalives: what may be confirmed besides the ends of commits
	standby  *standby     // nil: none
	polled   *polledTable // nil: the outbox is read from the log
	lives    int          // how often the server was stopped
	lastGap  int64
	running  map[uint32]bool       // numbers of transactions
	known    map[string]*statement // by text
	grown    chan struct{}         // closed and replaced when the log has grown or anything else has happened

	// Confirmed, where set, sees each flush position that a client reports, before it counts, and what is wrong with
	// it alone.
	Confirmed func(pid int, flush LSN, wrong string)
	// Marked, where set, sees each row whose mark is committed.
	Marked func(row Row)
	// Said, where set, hears what the server did, for the trace.
	Said func(format string, args ...any)
}

// New returns a running server with an empty log.
func New(cfg Config) *Server {
	const begin = 0x1000000
	s := &Server{
		cfg: cfg, up: true, told: map[LSN]bool{begin: true}, sessions: map[int]*session{}, lastPID: 100,
		grown: make(chan struct{}), running: map[uint32]bool{},
		known: map[string]*statement{},
		state: State{
			Timeline: 1, End: begin, xid: firstXID, Table: map[string]map[string]string{},
			Slot:    Slot{Name: cfg.Slot, Confirmed: begin, saved: begin, Restart: begin},
			Catalog: newCatalog(),
		},
	}
	if cfg.Standby != "" {
		s.standby = newStandby(cfg.Lag, &s.state)
	}
	if cfg.Polled {
		s.polled = newPolledTable()
	}
	return s
}

func (s *Server) say(format string, args ...any) {
	if s.Said != nil {
		s.Said(format, args...)
	}
}

// grow is called with the lock held.
func (s *Server) grow() {
	if s.standby != nil {
		s.standby.receive(&s.state)
	}
	close(s.grown)
	s.grown = make(chan struct{})
}

// Commit appends transactions. Their rows come first and their commit records after, back to back: the end of one
// transaction is where the commit record of the next one starts.
func (s *Server) Commit(txns ...[]Row) []Txn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		return nil
	}
	if s.polled != nil {
		for _, rows := range txns {
			s.polled.commit(s.polled.reserve(rows))
		}
	}
	return s.append(txns...)
}

// append writes committed transactions to the log. The lock is held.
func (s *Server) append(txns ...[]Row) []Txn {
	began := s.state.End
	for _, rows := range txns {
		s.state.End += LSN(120 * len(rows))
	}
	var made []Txn
	for _, rows := range txns {
		s.state.xid++
		t := Txn{
			XID: s.state.xid, Commit: s.state.End, End: s.state.End + 48, At: time.Now(), Rows: rows, Began: began,
			BeganAt: time.Now(), relation: s.state.Catalog.Relation,
		}
		for i := range rows {
			rows[i].Hidden = rows[i].Hidden || s.state.Catalog.hides()
		}
		s.state.End = t.End
		made = append(made, t)
	}
	s.state.Log = append(s.state.Log, made...)
	s.grow()
	return made
}

// Foreign writes WAL without events.
func (s *Server) Foreign(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up {
		s.state.End += LSN(bytes &^ 7)
		s.grow()
	}
}

// Look returns the state.
func (s *Server) Look() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.clone()
}

// Log lists the committed transactions, for reading only: what is in the log stays as it is.
func (s *Server) Log() []Txn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.state.Log)
}

// Holder is the backend that reads from the slot, 0 for none.
func (s *Server) Holder() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder
}

// Terminate ends the session that reads from the slot, as pg_terminate_backend does.
func (s *Server) Terminate() {
	s.mu.Lock()
	c := s.sessions[s.holder]
	s.mu.Unlock()
	if c != nil {
		c.end(fatal("57P01", "terminating connection due to administrator command"))
	}
}

// TerminatePID ends one session.
func (s *Server) TerminatePID(pid int) {
	s.mu.Lock()
	c := s.sessions[pid]
	s.mu.Unlock()
	if c != nil {
		c.end(fatal("57P01", "terminating connection due to administrator command"))
	}
}

// Advance moves the slot, as pg_replication_slot_advance does. It returns the code of the error, empty for none.
func (s *Server) Advance(to LSN) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.holder != 0:
		return "55006"
	case to < s.state.Slot.Confirmed:
		return "55000"
	}
	s.state.Slot.Confirmed = min(to, s.state.End)
	return ""
}

// TerminateOthers ends all sessions but the stream's.
func (s *Server) TerminateOthers() {
	s.mu.Lock()
	var all []*session
	for _, pid := range slices.Sorted(maps.Keys(s.sessions)) {
		if pid != s.holder {
			all = append(all, s.sessions[pid])
		}
	}
	s.mu.Unlock()
	for _, c := range all {
		c.end(fatal("57P01", "terminating connection due to administrator command"))
	}
}

// Deny revokes the rights on the checkpoint's table, or grants them.
func (s *Server) Deny(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = on
}

// Lock takes a lock on the checkpoint's table, or releases it. Statements give up after their statement_timeout.
func (s *Server) Lock(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = on
	s.grow()
}

// SaveSlot is what a checkpoint of the server does: the slot's position is on disk.
func (s *Server) SaveSlot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Slot.saved = s.state.Slot.Confirmed
}

// Stop ends the server: at once, or with a word to each session. Before 17 the slot falls back to what was saved.
func (s *Server) Stop(crash bool) {
	s.mu.Lock()
	s.up, s.holder = false, 0
	s.lives++
	clear(s.running)
	if crash || s.cfg.Version < 170000 {
		s.state.Slot.Confirmed = s.state.Slot.saved
	}
	all := s.endAll()
	s.grow()
	s.mu.Unlock()
	for _, c := range all {
		if crash {
			c.crash()
		} else {
			c.end(fatal("57P01", "terminating connection due to administrator command"))
		}
	}
}

func (s *Server) endAll() (all []*session) {
	for _, pid := range slices.Sorted(maps.Keys(s.sessions)) {
		all = append(all, s.sessions[pid])
	}
	return all
}

// Start starts it again.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = true
	s.grow()
}

// Snapshot is a copy of the disk.
func (s *Server) Snapshot() State { return s.Look() }

// Restore puts the disk back. The server must be stopped.
func (s *Server) Restore(to State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = to.clone()
	s.state.Slot.Confirmed = s.state.Slot.saved
	if s.standby != nil {
		s.standby.copyFrom(&s.state)
	}
}

// LimitTransactions sets transaction_timeout for the whole server.
func (s *Server) LimitTransactions(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Version >= 170000 {
		s.cfg.TransactionTimeout = d
	}
}
