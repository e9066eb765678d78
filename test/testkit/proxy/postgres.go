package proxy

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Status is a standby status update that a client sent, or tried to
// (https://www.postgresql.org/docs/current/protocol-replication.html).
type Status struct {
	Write, Flush, Apply uint64
	ReplyRequested      bool
	Dropped             bool
}

type postgresHooks struct {
	mu        sync.Mutex
	drop      bool
	rewrite   func(Status) Status
	onStatus  func(Status)
	onWALEnds func(walEnd uint64)
}

// DropStatusUpdates swallows the client's standby status updates (or passes them again): what was acknowledged in Kafka
// is not known to Postgres.
func (p *Proxy) DropStatusUpdates(on bool) {
	p.postgres.mu.Lock()
	defer p.postgres.mu.Unlock()
	p.postgres.drop = on
}

// RewriteStatus changes the positions of each status update in transit (nil: no more), to make a relay look like one
// that confirms something else than it should: a judge must notice.
func (p *Proxy) RewriteStatus(rewrite func(Status) Status) {
	p.postgres.mu.Lock()
	defer p.postgres.mu.Unlock()
	p.postgres.rewrite = rewrite
}

// OnStatus calls see for each status update, from the connection's goroutine, before it is passed on or dropped.
func (p *Proxy) OnStatus(see func(Status)) {
	p.postgres.mu.Lock()
	defer p.postgres.mu.Unlock()
	p.postgres.onStatus = see
}

// OnKeepalive calls see with the WAL end of each keepalive from the server, before the client gets it.
func (p *Proxy) OnKeepalive(see func(walEnd uint64)) {
	p.postgres.mu.Lock()
	defer p.postgres.mu.Unlock()
	p.postgres.onWALEnds = see
}

// Encryption requests have a startup packet's form and are answered by one byte: 'N' here, as the tests' server has no
// TLS; another startup packet follows.
const (
	sslRequest = 80877103
	gssRequest = 80877104
)

// postgresMessages follows one direction. From the client: startup packets without a type byte first, then type, int32
// length, body. An encryption request is answered by a lone 'N', which must not be read as a NoticeResponse.
func (c *conn) postgresMessages(d Direction, r io.Reader, emit func([]byte) error) error {
	if d == Up {
		if err := c.startup(r, emit); err != nil {
			return err
		}
	}
	head := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		if d == Down && c.refusals.Load() > 0 {
			if head[0] != 'N' {
				return fmt.Errorf("the server took up encryption (%q): use the Raw protocol", head)
			}
			c.refusals.Add(-1)
			if err := emit(head); err != nil {
				return err
			}
			continue
		}
		if err := c.postgresMessage(d, head[0], r, emit); err != nil {
			return err
		}
	}
}

// startup passes packets up to the packet that opens the session.
func (c *conn) startup(r io.Reader, emit func([]byte) error) error {
	head := make([]byte, 8)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		size, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if code == sslRequest || code == gssRequest {
			c.refusals.Add(1) // before the server can answer
		}
		if err := emit(head); err != nil {
			return err
		}
		if size < 8 {
			return fmt.Errorf("a startup packet of %d bytes", size)
		}
		if err := copyN(emit, r, int64(size)-8); err != nil {
			return err
		}
		if code != sslRequest && code != gssRequest {
			return nil
		}
	}
}

func (c *conn) postgresMessage(d Direction, kind byte, r io.Reader, emit func([]byte) error) error {
	head := []byte{kind, 0, 0, 0, 0}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return err
	}
	rest := int64(binary.BigEndian.Uint32(head[1:])) - 4
	if rest < 0 {
		return fmt.Errorf("message %q of %d bytes", kind, rest+4)
	}
	if lie := c.proxy.lies(); lie != nil && d == Down {
		return c.tell(lie, Answer{Type: kind}, head, rest, r, emit)
	}
	// status updates have 34 bytes, keepalives 18: WAL data is not worth keeping in memory
	if kind != 'd' || rest > 64 {
		if err := emit(head); err != nil {
			return err
		}
		return copyN(emit, r, rest)
	}
	body := make([]byte, rest)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	if drop := c.seeCopyData(d, body); drop {
		return nil
	}
	if err := emit(head); err != nil {
		return err
	}
	return emit(body)
}

func (c *conn) seeCopyData(d Direction, body []byte) (drop bool) {
	hooks := &c.proxy.postgres
	hooks.mu.Lock()
	drop, rewrite, onStatus, onWALEnds := hooks.drop, hooks.rewrite, hooks.onStatus, hooks.onWALEnds
	hooks.mu.Unlock()
	switch {
	case d == Up && len(body) == 34 && body[0] == 'r':
		s := Status{
			Write: binary.BigEndian.Uint64(body[1:]), Flush: binary.BigEndian.Uint64(body[9:]),
			Apply: binary.BigEndian.Uint64(body[17:]), ReplyRequested: body[33] != 0, Dropped: drop,
		}
		if onStatus != nil {
			onStatus(s)
		}
		if rewrite != nil {
			s = rewrite(s)
			binary.BigEndian.PutUint64(body[1:], s.Write)
			binary.BigEndian.PutUint64(body[9:], s.Flush)
			binary.BigEndian.PutUint64(body[17:], s.Apply)
		}
		return drop
	case d == Down && len(body) == 18 && body[0] == 'k' && onWALEnds != nil:
		onWALEnds(binary.BigEndian.Uint64(body[1:]))
	}
	return false
}
