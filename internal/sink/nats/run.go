package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	client "github.com/nats-io/nats.go"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

const (
	inFlight  = 4096            // messages without an answer: the server keeps 10,000 of a stream, and drops more
	burst     = 256             // messages that are sent before answers are looked at
	ackWait   = 5 * time.Second // without any answer, the stream is asked
	firstWait = 50 * time.Millisecond
	mostWait  = 2 * time.Second
)

// Run implements sink.Producer.
func (p *Producer) Run(ctx context.Context) error {
	err := p.run(ctx)
	p.mu.Lock()
	p.ran = err
	if err == nil {
		p.ran = sink.ErrStopped
	}
	p.announce()
	p.mu.Unlock()
	return err
}

func (p *Producer) run(ctx context.Context) error {
	wait := newBackoff()
	for again := false; ctx.Err() == nil; {
		conn, closed, err := p.dial(ctx)
		if err != nil {
			p.report(connectTrouble(p.cfg.Servers, err))
			pause(ctx, wait.NextBackOff())
			continue
		}
		if again && p.cfg.Reconnected != nil {
			p.cfg.Reconnected()
		}
		again = true
		wait.Reset()
		err = (&flow{p: p, conn: conn, wait: newBackoff()}).serve(ctx, closed)
		p.disconnected(err)
		conn.Close()
	}
	return nil
}

func newBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstWait, mostWait
	return b
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// flow is the sending over one connection.
type flow struct {
	p     *Producer
	conn  *connection
	inbox string // answers come to inbox and the number of the record
	wait  *backoff.ExponentialBackOff

	unsettled bool      // nothing is sent until the end of the stream is known
	failed    error     // why a record was not stored, the first of them; nil: none
	notBefore time.Time // of the next settling
	heard     time.Time // of an answer, or of a message after a lull
}

// serve sends until the connection is closed or ctx ends.
func (f *flow) serve(ctx context.Context, closed <-chan struct{}) error {
	f.inbox = client.NewInbox() + "."
	answers := make(chan *client.Msg, 2*inFlight) // the library drops what does not fit
	if _, err := f.conn.ChanSubscribe(f.inbox+"*", answers); err != nil {
		return err
	}
	f.unsettled = true
	f.p.connected(f.conn)
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		f.renew()
		if f.asks() && f.answered() && !time.Now().Before(f.notBefore) {
			f.settle(ctx)
		}
		more := f.send()
		clock.Reset(f.look())
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return f.conn.LastError()
		case m := <-answers:
			f.answer(m)
			for len(answers) > 0 {
				f.answer(<-answers)
			}
			f.deliver()
		case <-f.p.wake:
		case <-more:
		case <-clock.C:
		}
	}
}

// renew forgets the doubts about records of an earlier session.
func (f *flow) renew() {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	if f.p.fresh {
		f.p.fresh = false
		f.unsettled, f.failed, f.notBefore = false, nil, time.Time{}
		f.wait.Reset()
	}
}

// now is ready at once.
var now = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// answered reports whether no answer is to come any more, or not for a long time.
func (f *flow) answered() bool {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	return f.p.queue.awaited == 0 || time.Since(f.heard) >= ackWait
}

// asks reports whether there is a reason to ask for the end of the stream.
func (f *flow) asks() bool {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	return f.p.describe || f.unsettled && len(f.p.queue.messages) > 0
}

// look is when to look again although nothing has happened.
func (f *flow) look() time.Duration {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	switch {
	case f.p.queue.awaited > 0:
		return max(ackWait-time.Since(f.heard), 0)
	case f.p.describe, f.unsettled && len(f.p.queue.messages) > 0:
		return max(time.Until(f.notBefore), 0)
	}
	return time.Minute
}

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

// overdue reports whether answers are missing.
func (f *flow) overdue() bool {
	return !f.unsettled && f.p.queue.awaited > 0 && time.Since(f.heard) >= ackWait
}

var errSilent = errors.New("no answer within " + ackWait.String())

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

// answerJSON is a publication's answer (JetStream's ADR-22).
type answerJSON struct {
	Error     *answerError `json:"error"`
	Sequence  uint64       `json:"seq"`
	Duplicate bool         `json:"duplicate"`
}

// readAnswer reads the usual answer without the JSON package, which takes as long as all else that one answer costs.
func readAnswer(data []byte, stream string) (a answerJSON, err error) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if ok {
		if rest, ok = bytes.CutPrefix(rest, []byte(stream)); ok {
			rest, ok = bytes.CutPrefix(rest, []byte(`", "seq":`))
		}
	}
	if ok && len(rest) > 1 && rest[len(rest)-1] == '}' {
		if a.Sequence, err = strconv.ParseUint(string(rest[:len(rest)-1]), 10, 64); err == nil {
			return a, nil
		}
	}
	return a, json.Unmarshal(data, &a)
}

// answer applies the answer to one record.
func (f *flow) answer(msg *client.Msg) {
	number, err := strconv.ParseInt(strings.TrimPrefix(msg.Subject, f.inbox), 10, 64)
	if err != nil {
		return
	}
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	m, i := p.queue.at(number)
	if m == nil || m.answered {
		return // given up, or settled in the meantime
	}
	m.answered, f.heard = true, time.Now()
	p.queue.awaited--
	a, err := readAnswer(msg.Data, p.cfg.Stream)
	switch {
	case msg.Header.Get("Status") == "503":
		f.fail(errNoResponder)
	case err != nil:
		f.fail(errGarbled)
	case a.Error != nil && i > 0 && follows(a.Error):
		f.unsettled = true // a record before it was not stored, and says why
	case a.Error != nil:
		f.fail(a.Error)
	case a.Sequence == p.queue.base+1+uint64(i):
		m.stored = true
	case a.Duplicate:
		m.another()
		f.unsettled = true
	default:
		f.fail(errElsewhere)
	}
}

var (
	errNoResponder = errors.New("no stream takes the subject")
	errGarbled     = errors.New("the answer is not JetStream's")
	errElsewhere   = errors.New("the stream has stored the message at another place")
)

// fail notes why a record is not stored. All after it will not be, either.
func (f *flow) fail(err error) {
	f.unsettled = true
	if f.failed == nil {
		f.failed = err
	}
}

// another gives the message an id that the stream does not know: a message of its id is in the stream, within the
// window in which the server looks for duplicates. It is another row's, or this one's from a time whose position is
// not known; a repeat is allowed then, a gap never.
func (m *message) another() { m.id = client.NewInbox()[len(client.InboxPrefix):] + "@" + m.id }

// deliver acknowledges the records at the begin of the queue that are stored.
func (f *flow) deliver() {
	f.p.mu.Lock()
	stored := f.p.queue.take(f.p.queue.storedPrefix())
	if len(stored.messages) > 0 && !f.unsettled {
		f.failed = nil
		f.p.clear() // before Drain returns
	}
	f.p.mu.Unlock()
	f.acknowledge(stored)
}

// acknowledge calls Acked for records that are taken out of the queue.
func (f *flow) acknowledge(stored taken) {
	p, rest, place := f.p, stored.messages, stored.place
	if len(rest) == 0 {
		return
	}
	f.wait.Reset()
	for len(rest) > 0 {
		same := 1
		for same < len(rest) && rest[same].msg.Subject == rest[0].msg.Subject {
			same++
		}
		p.cfg.Acked(delivery(rest[:same], place))
		place += uint64(same)
		clear(rest[:same])
		rest = rest[same:]
	}
	p.mu.Lock()
	p.queue.calling = false
	p.announce()
	p.mu.Unlock()
}

func delivery(messages []*message, place uint64) sink.Delivery {
	d := sink.Delivery{
		Topic: messages[0].msg.Subject, BaseOffset: int64(place), Tickets: make([]uint64, len(messages)),
	}
	for i, m := range messages {
		d.Tickets[i] = m.ticket
		d.Bytes += m.size
		if m.tag != nil {
			d.Tags = append(d.Tags, sink.Tag{Record: int32(i), Tag: m.tag})
		}
	}
	return d
}
