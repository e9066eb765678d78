package offsets

import (
	"encoding/binary"
	"fmt"
)

// The world of the model: the log of one Postgres, one connector around a real Tracker, and two Kafka partitions with
// one key each. What would only multiply states without adding behaviour is left out, each for a reason:
//
//   - An application's commit is not an event: a transaction that is not committed yet equals a transaction that the
//     walsender has not reached.
//   - Nothing lies on the wire. What the walsender sent and the connector did not read is lost with the connection, as
//     if it had not been sent; a status update that arrives late acts like one sent earlier, one that is lost like
//     none.
//   - An acknowledgement that is lost is a late one, since an idempotent producer sends the same batch again and the
//     broker answers that it has it. It is lost for good only when the connector dies.
//   - A record in transit to the broker when the connector dies is appended before that, or never.

const walStart LSN = 1 // where the slot was created

// item is one stretch of the log: a transaction's commit record, or writes that do not concern the outbox.
type item struct {
	tx          int // -1: other writes
	commit, end LSN
	rows        []int // numbers into scenario.rows
	sent        bool  // false: nothing is sent for it (other writes; empty transactions since Postgres 15)
}

type row struct {
	tx, key int
	ord     int // among the rows of its key
}

// scenario is what an application wrote.
type scenario struct {
	name  string
	items []item
	rows  []row
	keys  [2]int // rows per key
	end   LSN    // of the log
}

// newScenario lays out transactions given as the keys of their rows, e.g. "ab", "", "a". The first two commit back to
// back, so that the end of one is the start of the other; other writes follow them and the last one.
func newScenario(sendEmpty bool, txs ...string) *scenario {
	s := &scenario{name: fmt.Sprintf("%q, empty ones sent: %v", txs, sendEmpty)}
	at := walStart
	for tx, keys := range txs {
		it := item{tx: tx, commit: at, end: at + 4, sent: sendEmpty || keys != ""}
		for _, k := range keys {
			key := int(k - 'a')
			it.rows = append(it.rows, len(s.rows))
			s.rows = append(s.rows, row{tx: tx, key: key, ord: s.keys[key]})
			s.keys[key]++
		}
		s.items = append(s.items, it)
		at = it.end
		if tx > 0 {
			s.items = append(s.items, item{tx: -1, commit: at, end: at + 4})
			at += 4
		}
	}
	s.end = at
	return s
}

type phase uint8

const (
	down     phase = iota // the connector's process has ended
	idle                  // it runs and has no stream
	starting              // it has read where to start
	streaming
)

// flight is a row the producer holds until it is acknowledged.
type flight struct {
	row    uint8
	ticket Ticket
}

// world is one state. A copy is independent once clone has copied what it points to.
type world struct {
	sc      *scenario
	mutant  mutant
	tracker *Tracker
	phase   phase
	request LSN // starting: asked for
	item    int // streaming: the walsender's place
	msg     int // messages of the item sent
	sentEnd LSN // the walsender's sentPtr, which keepalives carry

	queue    [2][]flight // sent to the partition and not acknowledged, in order
	appended [2]int      // of these, in the log
	log      [2]int      // rows of the key in the log; they are the first so many
	life     [2]int      // ord+1 of the last row appended in this life of the connector, 0 for none

	memory, disk LSN  // the slot's confirmed_flush_lsn
	repeats      bool // a connector crash or a Rewind has happened: duplicates may come
	rewound      bool // in this life

	cheat    LSN // what a mutant believes to be confirmed
	received LSN
	acks     int // in this life; not part of the state's identity
	appends  int // likewise
}

func newWorld(sc *scenario, m mutant) *world {
	return &world{sc: sc, mutant: m, memory: walStart, disk: walStart}
}

func (w *world) clone() *world {
	c := &world{}
	c.assign(w)
	return c
}

// assign makes w a copy of from, in w's own memory.
func (w *world) assign(from *world) {
	queue, tracker := w.queue, w.tracker
	*w = *from
	for p := range queue {
		w.queue[p] = append(queue[p][:0], from.queue[p]...)
	}
	if w.tracker = nil; from.tracker != nil {
		if tracker == nil {
			tracker = &Tracker{}
		}
		tracker.assign(from.tracker)
		w.tracker = tracker
	}
}

// assign makes t a copy of from. No other goroutine may use either of them.
func (t *Tracker) assign(from *Tracker) {
	t.confirmed.Store(from.confirmed.Load())
	slots := append(t.ledger.slots[:0], from.ledger.slots...)
	t.session, t.base, t.ledger, t.rows, t.total = from.session, from.base, from.ledger, from.rows, from.total
	t.last, t.lastEnd, t.half, t.slot, t.micros = from.last, from.lastEnd, from.half, from.slot, from.micros
	t.early, t.stream = from.early, from.stream
	t.ledger.slots = slots
}

// identity appends all that decides what can happen from here on. Session numbers, slots and their use counts are left
// out: they name things and decide nothing.
func (w *world) identity(b []byte) []byte {
	b = append(b, byte(w.phase), byte(w.request), byte(w.item), byte(w.msg), byte(w.sentEnd),
		byte(w.memory), byte(w.disk), flag(w.repeats), flag(w.rewound), byte(w.cheat), byte(w.received))
	for p := range w.queue {
		b = append(b, byte(w.appended[p]), byte(w.log[p]), byte(w.life[p]), byte(len(w.queue[p])))
		for _, f := range w.queue[p] {
			b = append(b, f.row)
			if w.rewound && uint16(f.ticket>>48) != w.tracker.session {
				b = append(b, 'x', byte(f.ticket))
			}
		}
	}
	if w.tracker != nil {
		b = w.tracker.identity(b)
	}
	return b
}

func (t *Tracker) identity(b []byte) []byte {
	s := &t.stream
	b = append(b, byte(t.Confirmed()), byte(t.base), byte(t.last), byte(t.lastEnd), flag(t.half), flag(t.slot != none),
		byte(s.pass), byte(s.commit), byte(s.index), byte(s.known), byte(s.floor), byte(t.rows))
	b = binary.AppendUvarint(b, t.total)
	for slot := t.ledger.head; slot != none; slot = t.ledger.slots[slot].next {
		e := &t.ledger.slots[slot]
		b = append(b, flag(s.cursor == slot), byte(e.commit), byte(e.end), byte(e.folded), byte(e.rows),
			byte(e.outstanding), flag(e.closed))
	}
	return b
}

func flag(f bool) byte {
	if f {
		return 1
	}
	return 0
}

// String is one line of a trace.
func (w *world) String() string {
	confirmed := "-"
	if w.phase != down {
		confirmed = fmt.Sprint(uint64(w.flush()))
	}
	return fmt.Sprintf("confirmed %s, slot %d (saved %d), log a:%d/%d b:%d/%d, in flight %d+%d",
		confirmed, w.memory, w.disk, w.log[0], w.sc.keys[0], w.log[1], w.sc.keys[1], len(w.queue[0]), len(w.queue[1]))
}
