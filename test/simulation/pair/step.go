package pair

import "fmt"

// kind is one of the steps. Steps from freeze on are faults.
type kind uint8

const (
	commit kind = iota
	acquire
	notice // the instance learns that its session is over
	send
	produce
	land      // the broker takes what is on the wire, and answers
	landStray // it takes what no process waits for any more
	finish    // EO: the transaction with everything that is queued is committed
	settle    // stream: it asks for the end of the stream
	keepRow
	status
	wake
	start
	grant
	freeze
	steal // the session of the owner ends
	crash
	backup
	restore
	deny
	cut   // stream: the connection ends
	purge // stream: its messages are removed
	kinds
)

var names = [kinds]string{
	"an application commits", "acquires the slot", "notices that its stream is over", "reads an event",
	"sends a record", "has a record appended and acknowledged", "has a stale record appended",
	"commits a Kafka transaction", "asks for the end of the stream", "writes the row", "confirms to the slot", "wakes",
	"starts", "the rights are granted", "freezes", "loses its session", "crashes", "the disk is copied",
	"the server is put back to the copy", "the rights are revoked", "loses its connection with the stream",
	"the stream is purged",
}

type step struct {
	kind kind
	who  int8
}

func (s step) String() string {
	switch s.kind {
	case commit, grant, backup, restore, deny, purge:
		return names[s.kind]
	}
	return fmt.Sprintf("%c %s", 'A'+s.who, names[s.kind])
}

// bounds are how far a search goes.
type bounds struct{ commits, faults uint8 }

// applyStep takes the step; false: it is not possible here.
func (w *world) applyStep(s step, r rules, b bounds) bool {
	p := &w.p[s.who]
	if s.kind >= freeze && s.kind != backup {
		if w.faults == b.faults {
			return false
		}
		w.faults++
	}
	switch s.kind {
	case commit:
		if w.events == b.commits {
			return false
		}
		w.events++
		w.server.log[w.length] = w.events
		if r.stream.on {
			w.at[w.events] = w.length
		}
		w.length++
		return true
	case grant:
		was := w.denied
		w.denied = false
		return was
	case deny:
		was := w.denied
		w.denied = true
		return !was
	case backup:
		if w.backed {
			return false
		}
		w.backup, w.backed = w.server, true
		return true
	case restore:
		if !w.backed || w.restored {
			return false
		}
		w.server, w.restored, w.owner = w.backup, true, -1
		return true
	case purge:
		possible := r.stream.on && w.records > 0 && !w.purged
		w.purged, w.empty = true, true
		return possible
	case landStray:
		return w.landStray(p, r)
	case land:
		return w.land(p, s.who, r)
	}
	return w.act(s, p, r)
}

// act is what an instance does, or what is done to it.
func (w *world) act(s step, p *process, r rules) bool {
	able := p.up && !p.frozen && !p.halted
	switch s.kind {
	case wake:
		was := p.frozen
		p.frozen = false
		return was
	case start:
		if p.up || p.halted {
			return false
		}
		*p = process{up: true, epoch: -1, stale: p.stale, strays: p.strays}
		return true
	case freeze:
		possible := able && p.streams
		p.frozen = true
		return possible
	case cut:
		possible := r.stream.on && p.up && p.flying > 0
		p.stray()
		p.doubt = true
		return possible
	case steal:
		possible := w.owner == s.who
		w.release(s.who)
		return possible
	case crash:
		if !p.up || !p.streams {
			return false
		}
		p.drop()
		p.up, p.streams, p.frozen = false, false, false
		w.release(s.who)
		return true
	}
	return able && w.relay(s, p, r)
}

// release ends the session of an instance that holds the slot.
func (w *world) release(who int8) {
	if w.owner == who {
		w.owner = -1
	}
}

// relay is the work of an instance that runs.
func (w *world) relay(s step, p *process, r rules) bool {
	holds := w.owner == s.who
	switch s.kind {
	case notice:
		possible := p.streams && !holds
		p.lose(r)
		return possible
	case acquire:
		if p.streams || w.owner >= 0 {
			return false
		}
		w.acquire(s.who, p, r)
		return true
	case send:
		return p.streams && holds && w.send(p, r)
	case produce, finish, settle:
		return w.publish(s, p, r)
	case keepRow:
		return p.streams && (holds || !r.holds) && w.keepRow(p)
	default:
		return holds && p.streams && w.status(p)
	}
}

// publish is what an instance does with the broker.
func (w *world) publish(s step, p *process, r rules) bool {
	switch {
	case s.kind == settle:
		return p.doubt && w.settle(p, s.who, r)
	case r.stream.on || !r.once:
		return s.kind == produce && p.produce(r.stream)
	default:
		return s.kind == finish && w.finish(p, r)
	}
}

// send reads the next event from the stream.
func (w *world) send(p *process, r rules) bool {
	if p.next >= w.length || p.queued == commits {
		return false
	}
	if p.next < p.skip { // in Kafka already
		w.cover(p, r)
		return true
	}
	p.queue[p.queued] = w.server.log[p.next]
	p.queued++
	p.next++
	return true
}

func (w *world) cover(p *process, r rules) {
	p.next++
	switch {
	case !r.evidence:
		p.acked = p.next
	case p.next < p.skip:
	case w.server.log[p.next-1] != w.covered(p, r):
		p.halted, p.streams, w.owner = true, false, -1
	default:
		p.acked = p.skip
	}
}

// covered is the last event that the position covers.
func (w *world) covered(p *process, r rules) uint8 {
	if r.stream.on {
		return w.log[p.base-1]
	}
	return w.covers
}

func (p *process) produce(r streamRules) bool {
	if p.sent >= p.queued || p.flying == 2 || p.doubt {
		return false
	}
	b := batch{event: p.queue[p.sent], epoch: p.epoch}
	if r.on {
		p.condition(&b)
	}
	p.wire[p.flying] = b
	p.flying++
	p.sent++
	p.tried = max(p.tried, p.sent)
	return true
}

func (w *world) keepRow(p *process) bool {
	if w.denied || p.blind || p.acked <= w.row {
		return false
	}
	w.row, w.number = p.acked, w.number+1
	p.number = w.number
	return true
}

// status confirms to the slot what the row holds.
func (w *world) status(p *process) bool {
	upTo := min(p.acked, w.row)
	if p.blind {
		upTo = p.acked
	}
	if upTo <= w.confirmed {
		return false
	}
	w.confirmed = upTo
	w.blindly = w.blindly || p.blind
	return true
}
