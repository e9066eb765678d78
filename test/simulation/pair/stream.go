package pair

// streamRules are what the instances do with a stream of JetStream, in which every message is published on a condition.
// A message carries the position of its event, so that the last one says how far all instances have come.
type streamRules struct {
	on       bool
	sequence bool // a message names the sequence after which it is to be stored
	chain    bool // it also names the message there, until that is acknowledged
	position bool // a new owner leaves out what the last message's position covers
	settle   bool // after a doubt, what is stored already counts, and is not sent again
	compare  bool // ... only if the last message is the expected one
}

// beginStream asks for the end of the stream, and returns the position that its last message covers.
func (w *world) beginStream(p *process, r streamRules) uint8 {
	p.base = w.records
	if !r.position || w.records == 0 || w.empty {
		return 0
	}
	return w.at[w.log[w.records-1]] + 1
}

// condition names the place of the message.
func (p *process) condition(b *batch) {
	b.last = p.base + p.sent
	if p.flying > 0 {
		b.previous = p.queue[p.sent-1]
	}
}

// takes reports whether the condition of the message holds.
func (w *world) takes(b batch, r streamRules) bool {
	if r.sequence && b.last != w.records {
		return false
	}
	return !r.chain || b.previous == 0 || !w.empty && b.previous == w.log[w.records-1]
}

func (w *world) appendMessage(b batch) bool {
	w.empty = false
	return w.appendRecord(b.event)
}

// store appends the message and acknowledges it, or refuses it.
func (w *world) store(p *process, b batch, r streamRules) bool {
	if !w.takes(b, r) {
		p.doubt = p.doubt || p.up
		return true
	}
	if !w.appendMessage(b) {
		return false
	}
	if p.up && p.queued > 0 && p.queue[0] == b.event {
		p.shift()
		p.base++
		p.sent--
		p.tried--
	}
	return true
}

// settle asks for the end of the stream, once every answer is there or given up.
func (w *world) settle(p *process, who int8, r rules) bool {
	if p.flying > 0 || !p.streams {
		return false
	}
	stored := w.records - p.base
	switch {
	case !r.stream.settle:
		p.base, stored = w.records, 0
	case stored == 0:
	case stored > p.tried, r.stream.compare && (w.empty || w.log[w.records-1] != p.queue[stored-1]):
		w.refused(p, who, r)
		return true
	}
	for range stored {
		p.shift()
		p.base++
		p.tried--
	}
	p.sent, p.doubt = 0, false
	return true
}
