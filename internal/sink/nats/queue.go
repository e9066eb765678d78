package nats

import "github.com/cdc-outbox/cdc-outbox/internal/sink"

// queue holds the records that are not acknowledged, in their order. Record i of it is stored at the sequence base+1+i,
// or not at all: that place never changes.
type queue struct {
	messages []*message
	first    int64  // number of messages[0], from 0, over all sessions: a late answer to a record given up matches none
	base     uint64 // the stream's last sequence before messages[0]

	sent    int    // of messages, on this connection since it was settled
	tried   int    // of messages, ever: what may be in the stream
	awaited int    // answers that are still to come
	last    string // Nats-Msg-Id of the message sent last
	calling bool   // Acked is being called
}

func (q *queue) add(m *message) { q.messages = append(q.messages, m) }

func (q *queue) empty() bool { return len(q.messages) == 0 && !q.calling }

// begin sets the place of the first record.
func (q *queue) begin(base uint64) {
	q.first += int64(len(q.messages))
	*q = queue{first: q.first, base: base, calling: q.calling}
}

// clear gives up all records.
func (q *queue) clear() sink.Dropped {
	var d sink.Dropped
	for _, m := range q.messages {
		d.Records++
		d.Bytes += m.size
	}
	q.begin(0)
	return d
}

// batch is what is sent at once.
type batch struct {
	messages []*message
	number   int64  // of the first
	place    uint64 // the sequence before the first
	previous string // the id of the message before the first, empty if everything before is acknowledged
}

// next returns the messages to send now, at most n. They count as sent. While nothing is unanswered, the sequence alone
// says what comes before; and servers up to 2.14 forget the last id at a restart, unless the message is recent.
func (q *queue) next(n, most int) batch {
	end := min(len(q.messages), q.sent+n, most)
	if end <= q.sent {
		return batch{}
	}
	b := batch{
		messages: q.messages[q.sent:end:end], number: q.first + int64(q.sent), place: q.base + uint64(q.sent),
		previous: q.last,
	}
	if q.awaited == 0 {
		b.previous = ""
	}
	for _, m := range b.messages {
		m.answered = false
	}
	q.last = b.messages[len(b.messages)-1].id
	q.awaited += len(b.messages)
	q.sent = end
	q.tried = max(q.tried, end)
	return b
}

// again has everything sent again that is not acknowledged.
func (q *queue) again() { q.sent, q.awaited = 0, 0 }

// taken are records that are out of the queue, because they are stored.
type taken struct {
	messages []*message
	place    uint64 // the sequence of the first
}

// take removes the first n records. Until acknowledge has reported them, the queue is not empty.
func (q *queue) take(n int) taken {
	t := taken{messages: q.messages[:n:n], place: q.base + 1}
	q.messages = q.messages[n:]
	q.first += int64(n)
	q.base += uint64(n)
	q.sent, q.tried = max(q.sent-n, 0), max(q.tried-n, 0)
	q.calling = q.calling || n > 0
	return t
}

// storedPrefix counts the records at the begin of the queue that are stored.
func (q *queue) storedPrefix() int {
	n := 0
	for n < q.sent && q.messages[n].stored {
		n++
	}
	return n
}

// at returns the record of that number if it is sent, and its index.
func (q *queue) at(number int64) (*message, int) {
	i := number - q.first
	if i < 0 || i >= int64(q.sent) {
		return nil, 0
	}
	return q.messages[i], int(i)
}
