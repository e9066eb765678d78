package pair

// acquire takes the slot, judges what the server is, and begins.
func (w *world) acquire(who int8, p *process, r rules) {
	p.blind = w.denied
	if p.known && p.acked > w.length || !p.blind && w.strange(p, r) {
		p.halted = true
		return
	}
	if !p.blind {
		w.row = max(w.row, w.confirmed)
	}
	w.owner, p.streams = who, true
	switch {
	case !p.known:
		p.acked, p.next, p.known = w.confirmed, w.confirmed, true
	case w.confirmed > p.acked: // another instance had it
		p.drop()
		p.acked, p.next = w.confirmed, w.confirmed
	default: // what was handed over before is not handed over again
		p.next = p.acked + p.queued
	}
	if r.reread && p.boot != w.restored && p.acked > w.row {
		w.goBack(p) // what it knows beyond the row may be of another history
	}
	p.boot = w.restored
	switch {
	case !r.once && !r.fenced && !r.stream.on:
		p.claimed = true
	case !p.claimed || r.claim:
		w.claim(p, r)
	}
}

// strange reports whether slot and row refute that this is the server that was read from last.
func (w *world) strange(p *process, r rules) bool {
	switch {
	case r.inside && p.number > w.number, r.outside && w.kept > w.number:
		return true // the server is an older copy
	case w.confirmed <= w.row:
		return false
	}
	return !r.recall || !p.known || w.confirmed > p.acked // the slot was moved
}

// goBack begins again at what the server has.
func (w *world) goBack(p *process) {
	p.drop()
	p.acked, p.next = max(w.row, w.confirmed), max(w.row, w.confirmed)
}

// claim raises the epoch.
func (w *world) claim(p *process, r rules) {
	p.drop()
	if r.yield && p.epoch != w.epoch {
		w.goBack(p)
	}
	w.epoch++
	p.epoch, p.claimed = w.epoch, true
	switch {
	case r.stream.on:
		p.skip = w.beginStream(p, r.stream)
	case r.once:
		p.skip = w.position
	}
	if r.evidence && p.skip > w.length {
		p.halted, p.streams, w.owner = true, false, -1 // the position is beyond the end of the log
	}
}

// land appends what the instance has on the wire. A fenced instance learns it from the answer.
func (w *world) land(p *process, who int8, r rules) bool {
	if p.flying == 0 {
		return false
	}
	b := p.wire[0]
	p.wire[0], p.wire[1] = p.wire[1], batch{}
	p.flying--
	if r.stream.on {
		return w.store(p, b, r.stream)
	}
	if r.fenced && b.epoch < w.last {
		if !p.up || p.frozen {
			return true
		}
		w.refused(p, who, r)
		return true
	}
	if !w.appendRecord(b.event) {
		return false
	}
	w.last = max(w.last, b.epoch)
	if p.up && p.queued > 0 {
		p.shift()
		p.sent--
	}
	return true
}

// refused is what a fenced instance does.
func (w *world) refused(p *process, who int8, r rules) {
	p.drop()
	p.streams = false
	if w.owner == who {
		w.owner = -1
	}
	p.halted = !r.wait
}

func (w *world) landStray(p *process, r rules) bool {
	if p.strays == 0 {
		return false
	}
	b := p.stale[0]
	p.stale[0], p.stale[1] = p.stale[1], batch{}
	p.strays--
	if r.stream.on {
		return !w.takes(b, r.stream) || w.appendMessage(b)
	}
	if r.fenced && b.epoch < w.last {
		return true
	}
	w.last = max(w.last, b.epoch)
	return w.appendRecord(b.event)
}

// finish commits everything that is queued, and the position with it.
func (w *world) finish(p *process, r rules) bool {
	if p.queued == 0 {
		return false
	}
	if p.epoch != w.epoch {
		who := int8(0)
		if p == &w.p[1] {
			who = 1
		}
		w.refused(p, who, r)
		return true
	}
	for p.queued > 0 {
		w.covers = p.queue[0]
		if !w.appendRecord(p.queue[0]) {
			return false
		}
		p.shift()
	}
	w.position = p.acked
	if r.outside {
		w.kept = max(w.kept, p.number)
	}
	return true
}
