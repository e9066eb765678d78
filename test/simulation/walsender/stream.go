package walsender

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

var startReplication = regexp.MustCompile(`START_REPLICATION SLOT "?(\w+)"? LOGICAL ([0-9A-F]+/[0-9A-F]+)`)

// streaming is the COPY mode of a session.
type streaming struct {
	c       *session
	s       *Server
	next    LSN // transactions whose commit record starts below are skipped
	sent    LSN // how much of the log the client has heard of
	asked   bool
	heard   time.Time
	timeout time.Duration
	replies chan reply
	related uint32 // the relation that was described
	due     []byte
	done    atomic.Bool // the client ends the stream
	flushed LSN         // what the client confirmed last
}

type reply struct{ ask bool }

// stream serves START_REPLICATION. A nil error means that the session is over.
func (c *session) stream(sql string) error {
	s := c.server
	start, asked, err := s.acquire(c.pid, sql)
	if err != nil {
		return err
	}
	s.say("%d streams from %s, asked for %s", c.pid, start, asked)
	st := &streaming{c: c, s: s, next: start, sent: start, heard: time.Now(), replies: make(chan reply, 1)}
	st.timeout = c.duration("wal_sender_timeout")
	c.backend.Send(&pgproto3.CopyBothResponse{})
	_ = c.backend.Flush() // listen finds out
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		st.listen()
	}()
	st.run(listening)
	c.close()
	<-listening
	return nil
}

// acquire gives the slot to a backend. It returns the position to begin at, and the position that was asked for.
func (s *Server) acquire(pid int, sql string) (start LSN, asked string, err error) {
	m := startReplication.FindStringSubmatch(sql)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m == nil:
		return 0, "", refuse("42601", "syntax error")
	case m[1] != s.state.Slot.Name:
		return 0, "", refuse("42704", fmt.Sprintf("replication slot %q does not exist", m[1]))
	case s.holder != 0:
		return 0, "", refuse("55006", fmt.Sprintf("replication slot %q is active for PID %d", m[1], s.holder))
	case !s.up:
		return 0, "", refuse("57P01", "terminating connection due to administrator command")
	}
	s.holder = pid
	return max(ParseLSN(m[2]), s.state.Slot.Confirmed), m[2], nil
}

// duration is a setting in milliseconds that is in force in the session.
func (c *session) duration(name string) time.Duration {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	ms, _ := strconv.Atoi(*c.setting(name))
	return time.Duration(ms) * time.Millisecond
}

// listen takes the client's status updates, also while the sender waits for room.
func (st *streaming) listen() {
	for {
		m, err := st.c.backend.Receive()
		if err != nil {
			return
		}
		if _, done := m.(*pgproto3.CopyDone); done {
			st.done.Store(true)
			return
		}
		d, ok := m.(*pgproto3.CopyData)
		if !ok {
			return
		}
		if len(d.Data) < 34 || d.Data[0] != 'r' {
			continue
		}
		st.confirm(LSN(binary.BigEndian.Uint64(d.Data[9:])))
		r := reply{ask: d.Data[33] != 0}
		select {
		case st.replies <- r:
		default:
			select {
			case old := <-st.replies:
				r.ask = r.ask || old.ask
			default:
			}
			st.replies <- r
		}
	}
}

func (st *streaming) confirm(flush LSN) {
	s := st.s
	s.mu.Lock()
	judge := s.Confirmed
	legal := s.told[flush]
	for i := len(s.state.Log) - 1; i >= 0 && !legal; i-- {
		legal = s.state.Log[i].End == flush
	}
	var wrong string
	switch {
	case flush == 0:
		wrong = "0 was confirmed"
	case flush < st.flushed:
		wrong = fmt.Sprintf("%s was confirmed after %s", flush, st.flushed)
	case !legal:
		wrong = fmt.Sprintf("%s was confirmed, which is neither the end of a commit nor a keepalive's position", flush)
	}
	st.flushed = flush
	holds := s.holder == st.c.pid && s.up
	if holds && judge == nil && flush > s.state.Slot.Confirmed {
		s.state.Slot.Confirmed = flush
	}
	s.mu.Unlock()
	if !holds || judge == nil {
		return
	}
	judge(st.c.pid, flush, wrong)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == st.c.pid && s.up && flush > s.state.Slot.Confirmed {
		s.state.Slot.Confirmed = flush
	}
}

// run sends what is committed until the session ends.
func (st *streaming) run(listening <-chan struct{}) {
	for {
		st.s.mu.Lock()
		grown := st.s.grown
		st.s.mu.Unlock()
		if !st.catchUp() {
			return
		}
		if st.asked {
			st.asked = false
			if !st.keepalive(false) {
				return
			}
		}
		patience := time.NewTimer(max(time.Millisecond, st.pause()))
		select {
		case <-listening:
			patience.Stop()
			if st.done.Load() {
				st.due, _ = (&pgproto3.CopyDone{}).Encode(st.due)
				st.due, _ = (&pgproto3.CommandComplete{CommandTag: []byte("COPY 0")}).Encode(st.due)
				st.flush()
			}
			return
		case <-st.c.ended:
			patience.Stop()
			return
		case <-grown:
		case r := <-st.replies:
			st.heard, st.asked = time.Now(), r.ask
		case <-patience.C:
			if st.timeout > 0 && time.Since(st.heard) >= st.timeout {
				st.s.say("%d heard nothing for wal_sender_timeout", st.c.pid)
				return
			}
			if !st.keepalive(true) {
				return
			}
		}
		patience.Stop()
	}
}

// pause is until the client is asked for a sign of life, or given up.
func (st *streaming) pause() time.Duration {
	if st.timeout <= 0 {
		return time.Hour
	}
	silent := time.Since(st.heard)
	if silent < st.timeout/2 {
		return st.timeout/2 - silent
	}
	return st.timeout - silent
}

// catchUp sends every transaction that the client does not have; false: the session is over.
func (st *streaming) catchUp() bool {
	for {
		st.s.mu.Lock()
		var t *Txn
		for i := range st.s.state.Log {
			if st.s.state.Log[i].Commit >= st.next && !st.s.state.Log[i].hidden() {
				c := st.s.state.Log[i]
				t = &c
				break
			}
		}
		end := st.s.state.End
		st.s.mu.Unlock()
		if t == nil {
			if end > st.sent { // transactions without published rows: 15 and later say how far it is
				st.sent = end
				return st.keepalive(false)
			}
			return true
		}
		if !st.transaction(t) {
			return false
		}
		st.next, st.sent = t.End, max(st.sent, t.End)
	}
}

// piece is how many rows go out at a time.
const piece = 4

func (st *streaming) transaction(t *Txn) bool {
	began := time.Now()
	limit := st.c.duration("transaction_timeout")
	st.add(encodeBegin(t))
	for i, row := range t.Rows {
		if row.Hidden {
			continue
		}
		if st.related != t.relation {
			st.related = t.relation
			st.add(encodeRelation(t.relation))
		}
		st.addAt(t.Commit-LSN(120*(len(t.Rows)-i)), encodeInsert(t.relation, row))
		if (i+1)%piece == 0 && i+1 < len(t.Rows) {
			if !st.flush() {
				return false
			}
			if st.s.cfg.RowTime > 0 {
				time.Sleep(st.s.cfg.RowTime * piece)
			}
			if limit > 0 && time.Since(began) > limit {
				st.c.end(fatal("25P04", "terminating connection due to transaction timeout"))
				return false
			}
		}
	}
	st.add(encodeCommit(t))
	return st.flush()
}

func (st *streaming) add(message []byte) { st.addAt(0, message) }

func (st *streaming) addAt(at LSN, message []byte) {
	b := append(make([]byte, 0, 25+len(message)), 'w')
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.BigEndian.AppendUint64(b, 0)
	st.copyData(append(b, message...))
}

func (st *streaming) keepalive(ask bool) bool {
	st.s.mu.Lock()
	st.s.told[st.sent] = true
	st.s.mu.Unlock()
	b := binary.BigEndian.AppendUint64([]byte{'k'}, uint64(st.sent))
	b = binary.BigEndian.AppendUint64(b, 0)
	if ask {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	st.copyData(b)
	return st.flush()
}

func (st *streaming) copyData(b []byte) {
	st.due, _ = (&pgproto3.CopyData{Data: b}).Encode(st.due)
}

// flush sends what is due. A client that takes nothing and says nothing is given up.
func (st *streaming) flush() bool {
	for len(st.due) > 0 {
		if st.timeout > 0 {
			_ = st.c.conn.SetWriteDeadline(time.Now().Add(st.timeout))
		}
		n, err := st.c.conn.Write(st.due)
		if err == nil {
			st.due = st.due[n:]
			continue
		}
		select {
		case r := <-st.replies: // it lives, and is only slow
			st.heard, st.asked = time.Now(), st.asked || r.ask
			continue
		default:
		}
		return false
	}
	st.due = st.due[:0]
	select {
	case <-st.c.ended:
		return false
	default:
		return true
	}
}
