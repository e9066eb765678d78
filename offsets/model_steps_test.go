package offsets

import (
	"fmt"
	"slices"
	"time"
)

// step is one event. The order below is the order of the search.
type step uint8

const (
	stepColdStart step = iota // a new process reads the slot's position
	stepRead                  // the connector reads where to start ...
	stepStart                 // ... and START_REPLICATION is answered: acks may come between the two
	stepMessage               // the walsender's next Begin, row or Commit; or it passes over what it does not send
	stepKeepalive
	stepKeepaliveAhead // inside a transaction, with the end of its commit record as WAL end
	stepAppendA
	stepAppendB
	stepAckA
	stepAckB
	stepStatus
	stepSave // Postgres writes the slot to disk (a checkpoint; since 17 also a fast shutdown)
	// From here on: faults.
	stepBreak
	stepRestart // Postgres stops and starts: the slot falls back to what was saved
	stepCrash
	stepRewind // the session is given up, without waiting for the producer
	steps
)

const firstFault = stepBreak

// enabled reports whether the step can happen.
func (w *world) enabled(s step) bool {
	switch s {
	case stepColdStart:
		return w.phase == down
	case stepRead:
		return w.phase == idle
	case stepStart:
		return w.phase == starting
	case stepMessage, stepKeepalive, stepKeepaliveAhead, stepStatus:
		return w.phase == streaming && w.speaks(s)
	case stepAppendA, stepAppendB:
		p := s - stepAppendA
		return w.appended[p] < len(w.queue[p])
	case stepAckA, stepAckB:
		p := s - stepAckA
		return len(w.queue[p]) > 0 && (w.appended[p] > 0 || w.mutant == ackOnError)
	case stepSave:
		return w.disk != w.memory
	case stepBreak:
		return w.phase == streaming || w.phase == starting
	case stepRestart:
		return w.disk != w.memory || w.phase > idle
	case stepCrash:
		return w.phase != down
	case stepRewind:
		return w.phase == idle && !w.rewound && w.mutant.rewinds()
	default:
		return false
	}
}

// speaks reports whether a session that streams has this message to send.
func (w *world) speaks(s step) bool {
	switch s {
	case stepMessage:
		return w.item < len(w.sc.items)
	case stepKeepaliveAhead:
		return w.msg > 0
	default:
		return true
	}
}

// do takes the step. An error is a broken promise, whether the world or the tracker noticed.
func (w *world) do(s step) error {
	switch s {
	case stepColdStart:
		w.tracker, w.phase = NewTracker(w.memory), idle
		w.received = w.memory
	case stepRead:
		w.request, w.phase = w.from(), starting
	case stepStart:
		w.start()
	case stepMessage:
		return w.message()
	case stepKeepalive:
		w.keepalive(w.sentEnd)
	case stepKeepaliveAhead:
		w.keepalive(w.sc.items[w.item].end)
	case stepAppendA, stepAppendB:
		return w.append(int(s - stepAppendA))
	case stepAckA, stepAckB:
		return w.ack(int(s - stepAckA))
	case stepStatus:
		return w.status()
	case stepSave:
		w.disk = w.memory
	case stepBreak:
		w.disconnect()
	case stepRestart:
		w.memory = w.disk
		if w.phase > idle {
			w.disconnect()
		}
	case stepCrash:
		w.crash()
	case stepRewind:
		w.tracker.Rewind(w.memory)
		w.repeats, w.rewound, w.cheat, w.received = true, true, 0, w.memory
	}
	return nil
}

// start is START_REPLICATION: Postgres goes on from the slot's own position when asked for less, and takes a client's
// word for more. Whatever has its commit record below is skipped.
func (w *world) start() {
	w.phase, w.item, w.msg = streaming, 0, 0
	w.sentEnd = max(w.request, w.memory)
	w.request = 0
	for w.item < len(w.sc.items) && w.sc.items[w.item].commit < w.sentEnd {
		w.item++
	}
}

// message has the walsender send the next message and the connector handle it.
func (w *world) message() error {
	it := &w.sc.items[w.item]
	switch {
	case !it.sent:
		w.passed(it)
		return nil
	case w.msg == 0:
		w.received = max(w.received, it.commit)
		w.msg++
		return w.tracker.Begin(it.commit, time.UnixMicro(int64(it.commit)))
	case w.msg <= len(it.rows):
		w.msg++
		return w.row(it, w.msg-2)
	default:
		w.passed(it)
		w.received = max(w.received, it.end)
		if w.mutant == confirmOnCommit {
			w.cheat = w.received
		}
		return w.tracker.Commit(it.end)
	}
}

func (w *world) passed(it *item) {
	w.item, w.msg, w.sentEnd = w.item+1, 0, it.end
}

func (w *world) row(it *item, index int) error {
	pos, ticket, fresh, err := w.tracker.Add()
	if err != nil {
		return err
	}
	if want := (Position{Commit: it.commit, Index: uint32(index)}); pos != want {
		return violation(fmt.Sprintf("position: %s handed out for row %s", pos, want))
	}
	if fresh || w.mutant == produceRepeats {
		r := it.rows[index]
		key := w.sc.rows[r].key
		w.queue[key] = append(w.queue[key], flight{row: uint8(r), ticket: ticket})
	}
	return nil
}

// append puts the partition's next row into its log.
func (w *world) append(p int) error {
	f := w.queue[p][w.appended[p]]
	r := w.sc.rows[f.row]
	w.appended[p]++
	w.appends++
	switch {
	case r.ord > w.log[p]:
		return violation(fmt.Sprintf("order: row %d of key %c first appears before row %d", r.ord, 'a'+p, w.log[p]))
	case r.ord < w.log[p] && !w.repeats:
		return violation(fmt.Sprintf("duplicate: row %d of key %c again, and no connector crashed", r.ord, 'a'+p))
	case w.life[p] > 0 && r.ord != w.life[p] && !w.rewound:
		return violation(fmt.Sprintf("order: row %d of key %c follows row %d", r.ord, 'a'+p, w.life[p]-1))
	}
	w.log[p] = max(w.log[p], r.ord+1)
	w.life[p] = r.ord + 1
	return nil
}

// ack has the broker's acknowledgement of the partition's oldest row arrive.
func (w *world) ack(p int) error {
	f := w.queue[p][0]
	w.queue[p] = slices.Delete(w.queue[p], 0, 1)
	w.appended[p] = max(w.appended[p]-1, 0)
	w.acks++
	w.acked(f)
	if f.ticket == 0 {
		return nil
	}
	return w.mutant.excuse(w.tracker.Ack([]Ticket{w.ticket(f)}, nil))
}

// status is a standby status update that arrives: Postgres takes the flush position as it is, lower or higher.
func (w *world) status() error {
	flush := w.flush()
	if flush == 0 {
		return violation("zero: flush position 0 reported")
	}
	if flush < w.memory {
		return violation(fmt.Sprintf("monotone: flush position fell from %d to %d", w.memory, flush))
	}
	w.memory = flush
	return nil
}

func (w *world) disconnect() {
	w.phase, w.item, w.msg, w.sentEnd, w.request = idle, 0, 0, 0, 0
	w.tracker.Resume()
}

func (w *world) crash() {
	if w.phase > idle {
		w.disconnect()
	}
	w.phase, w.tracker, w.cheat, w.received, w.acks, w.appends = down, nil, 0, 0, 0, 0
	w.queue[0], w.queue[1] = w.queue[0][:0], w.queue[1][:0]
	w.appended, w.life = [2]int{}, [2]int{}
	w.repeats, w.rewound = true, false
}
