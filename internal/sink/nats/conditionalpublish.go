package nats

import (
	"strconv"
	"time"

	client "github.com/nats-io/nats.go"
)

// send sends what may be sent. It returns a channel that is ready if there is more.
func (f *flow) send() <-chan struct{} {
	p := f.p
	p.mu.Lock()
	if f.overdue() {
		f.unsettled, f.failed = true, errSilent
	}
	if f.unsettled || !p.goesOn() {
		p.mu.Unlock()
		return nil
	}
	if p.queue.awaited == 0 {
		f.heard = time.Now()
	}
	b := p.queue.next(burst, inFlight)
	p.mu.Unlock()
	previous := b.previous
	for i, m := range b.messages {
		m.expect(p.cfg.Stream, b.place+uint64(i), previous)
		m.msg.Reply = f.inbox + strconv.FormatInt(b.number+int64(i), 10)
		if err := f.conn.PublishMsg(m.msg); err != nil {
			f.unsettled, f.failed = true, err // closed, or too large for another server than before
			return now
		}
		previous = m.id
	}
	if len(b.messages) == burst {
		return now
	}
	return nil
}

// expect sets the conditions of the message: that it is stored in this stream after this sequence, and after the
// message of this id, if one is given.
func (m *message) expect(stream string, last uint64, id string) {
	h, v := m.msg.Header, &m.expected
	v[0], v[1], v[2], v[3] = stream, strconv.FormatUint(last, 10), m.id, id
	h[client.ExpectedStreamHdr], h[client.ExpectedLastSeqHdr], h[client.MsgIdHdr] = v[0:1:1], v[1:2:2], v[2:3:3]
	if id == "" {
		delete(h, client.ExpectedLastMsgIdHdr)
		return
	}
	h[client.ExpectedLastMsgIdHdr] = v[3:4:4]
}
