package simulation

import (
	"github.com/cdc-outbox/cdc-outbox/test/simulation/broker"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

// appended notes what is in Kafka.
func (w *world) appended(p *broker.Partition, records []broker.Record) {
	if w.tracing {
		for _, r := range records {
			w.say("%s/%d has %s of %s, by producer %d epoch %d", p.Topic, p.Index, r.Value, r.Key, r.Producer, r.Epoch)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range records {
		r := records[i]
		w.arrived[r.Value] = append(w.arrived[r.Value], &r)
	}
}

// has reports whether consumers see the event. The lock is held.
func (w *world) has(id string) bool {
	for _, r := range w.arrived[id] {
		if r.Committed() {
			return true
		}
	}
	return false
}

// missing lists the events that are committed and not in Kafka.
func (w *world) missing() (ids []string) {
	log := w.postgres.Log()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range log {
		for _, row := range t.Rows {
			if !row.Hidden && !w.has(row.ID) {
				ids = append(ids, row.ID)
			}
		}
	}
	return ids
}

// confirmed judges what is confirmed to the slot: S and M. Everything that a stream from there on would skip has to be
// in Kafka.
func (w *world) confirmed(pid int, flush walsender.LSN, wrong string) {
	if wrong != "" {
		w.wrong("M", "session %d: %s", pid, wrong)
	}
	lost := ""
	log := w.postgres.Log()
	w.mu.Lock()
	for i := len(log) - 1; i >= 0 && lost == ""; i-- {
		t := &log[i]
		if t.Commit >= flush {
			continue
		}
		for _, row := range t.Rows {
			if !row.Hidden && !w.has(row.ID) {
				lost = row.ID
				break
			}
		}
	}
	w.mu.Unlock()
	if lost != "" {
		w.wrong("S", "session %d confirmed %s, and %s is not in Kafka", pid, flush, lost)
	}
}

// halted judges an instance that ended with exit code 3: only what an operator has to decide may bring that about.
func (w *world) halted(in *instance, err error) {
	w.mu.Lock()
	restored, promoted := w.restored, w.promoted
	w.mu.Unlock()
	// While the checkpoint may not be used, it cannot say on another server, or to another process, what was confirmed.
	in.mu.Lock()
	another := in.runs > 1 || w.plan.Instances > 1 || promoted
	in.mu.Unlock()
	if promoted && w.mayRefusePromoted(err) {
		return
	}
	if !restored && !(another && w.plan.has(Deny)) {
		w.wrong("E", "instance %s gave up: %v", in.name, err)
	}
}

// judge looks at the logs when nothing runs any more: N, O and D.
func (w *world) judge() {
	if missing := w.missing(); len(missing) > 0 && !w.stopped() {
		w.wrong("N", "%d of %d events are not in Kafka, the first is %s", len(missing), w.serial, missing[0])
	}
	place := map[string]int{} // of an event among the events of its key
	count := map[string]int{}
	for _, t := range w.postgres.Log() {
		for _, row := range t.Rows {
			if row.Hidden {
				continue
			}
			key := row.Topic + "/" + row.Key
			place[row.ID] = count[key]
			count[key]++
		}
	}
	w.judgeGhosts()
	w.judgeRepeats()
	w.judgeGaps()
	w.judgeLatency()
	for _, p := range w.kafka.Partitions() {
		w.judgePartition(&p, place, count)
	}
}

func (w *world) judgePartition(p *broker.Partition, place, count map[string]int) {
	last := map[string]int{}  // by key, the place of the last record plus one
	first := map[string]int{} // by key, the highest place so far plus one
	seen := map[string]int{}
	repeats := 0
	for i := range p.Log {
		r := &p.Log[i]
		at, ok := place[r.Value]
		if !ok || !r.Committed() { // a server that was restored or promoted does not have it
			continue
		}
		if seen[r.Value]++; seen[r.Value] > 1 {
			repeats++
		}
		before := last[r.Key]
		if w.plan.Polling > 0 { // after a repeat need not come all that came after its first appearance
			before = first[r.Key]
		}
		if at > before {
			w.wrong("O", "%s/%d: %s of %s is number %d of its key, after number %d", p.Topic, p.Index, r.Value, r.Key,
				at, before-1)
		}
		last[r.Key], first[r.Key] = at+1, max(first[r.Key], at+1)
	}
	topic := p.Topic[:len(p.Topic)-len(".events")]
	for key, n := range last {
		if all := count[topic+"/"+key]; n != all && !w.stopped() && !(w.plan.Polling > 0 && w.leavesLanes()) {
			w.wrong("O", "%s/%d: the last record of %s is number %d of %d", p.Topic, p.Index, key, n, all)
		}
	}
	if repeats > 0 && !w.mayRepeat() {
		w.wrong("D", "%s/%d: %d records more than once", p.Topic, p.Index, repeats)
	}
}

// mayRepeat reports whether a record may be in Kafka more than once.
func (w *world) mayRepeat() bool {
	switch p := w.plan; {
	case p.ExactlyOnce:
		return w.restored || w.promoted
	case p.Polling > 0:
		return w.leavesLanes()
	}
	return !w.plan.only(harmless)
}
