package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

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
