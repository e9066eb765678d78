// Package pair is a model of two instances that share a slot: who owns the slot, who owns the producer, what the
// checkpoint holds, and what becomes of it when a server is put back to a snapshot. The test visits every state.
//
// The log holds events of one key, one per transaction, and a position is a number of events. The instances follow
// rules. A rule that is switched off has to be refuted by a broken promise.
package pair

const (
	commits = 3 // events that applications commit
	most    = 6 // records in the partition; more repeats add nothing new
)

// rules are what the instances do. The zero value is wrong in every respect.
type rules struct {
	once     bool // exactly_once: records and position are committed together, under the coordinator's epoch
	fenced   bool // at least once: produce under the epoch of the shared transactional id
	claim    bool // raise the epoch at each acquisition, not once in the life of a process
	abandon  bool // drop what is not sent when the slot is lost
	wait     bool // wait for the slot after being fenced, instead of ending
	inside   bool // compare the row's number with the number that this process wrote
	outside  bool // compare the row's number with the number that is kept in Kafka
	recall   bool // remember what was confirmed while the table could not be used
	reread   bool // go back to the row's position when the server was restarted
	yield    bool // begin at the row's position, and go back to it where another instance had the slot meanwhile
	holds    bool // write the row only in a server where this process's session holds the slot
	evidence bool // EO: skip what the position covers only where its last transaction is still the same

	stream streamRules
}

// batch is one record that was sent to the broker.
type batch struct {
	event uint8
	epoch int8

	last, previous uint8 // stream: the condition, a sequence and an event
}

// process is one instance.
type process struct {
	up, frozen, halted bool
	streams            bool // as it believes
	claimed            bool
	known              bool // it has a position
	blind              bool // the table could not be used when it connected
	epoch              int8
	acked              uint8 // position up to which everything is acknowledged
	next               uint8 // position up to which the stream was read
	number             uint8 // of the last write to the row
	boot               bool  // whether the server was put back before it connected
	skip               uint8 // EO: positions below are in Kafka
	base               uint8 // stream: the sequence before queue[0]
	tried              uint8 // stream: of the queue, what may be stored
	doubt              bool  // stream: nothing is sent until the stream was asked for its end
	queue              [commits]uint8
	queued             uint8
	sent               uint8 // of the queue, on the wire
	wire               [2]batch
	flying             uint8
	stale              [2]batch // on the wire, by a process or a stream that is over
	strays             uint8
}

// server is what a snapshot of the disk holds.
type server struct {
	log       [commits]uint8
	length    uint8
	confirmed uint8
	row       uint8
	number    uint8
}

// world is a state.
type world struct {
	server
	backup   server
	backed   bool
	restored bool
	events   uint8
	owner    int8 // which instance's session holds the slot, -1 for none
	denied   bool
	blindly  bool // something was confirmed that the row could not take
	epoch    int8 // of the coordinator
	last     int8 // epoch of the last batch in the partition
	position uint8
	covers   uint8 // EO: the last event that the position covers
	kept     uint8
	log      [most]uint8
	records  uint8
	at       [commits + 1]uint8 // stream: where an event was committed
	purged   bool               // stream: once
	empty    bool               // stream: it has been since
	p        [2]process
	faults   uint8
}

func first() world {
	w := world{owner: -1, epoch: -1, last: -1}
	for i := range w.p {
		w.p[i] = process{up: true, epoch: -1}
	}
	return w
}

// appendRecord puts a record into the partition; false: the model's partition is full.
func (w *world) appendRecord(event uint8) bool {
	if w.records == most {
		return false
	}
	w.log[w.records] = event
	w.records++
	return true
}

// lose is what an instance does when it learns that its stream is over.
func (p *process) lose(r rules) {
	p.streams = false
	if r.abandon {
		p.drop()
	}
}

// drop forgets the queue; what is on the wire stays there.
func (p *process) drop() {
	p.stray()
	p.queue, p.queued, p.sent = [commits]uint8{}, 0, 0
	p.tried, p.doubt = 0, false
	p.next = p.acked
}

// stray leaves what is on the wire to itself.
func (p *process) stray() {
	for i := range p.flying {
		if int(p.strays) < len(p.stale) {
			p.stale[p.strays] = p.wire[i]
			p.strays++
		}
	}
	p.flying, p.wire = 0, [2]batch{}
}

// shift takes the head of the queue off.
func (p *process) shift() {
	copy(p.queue[:], p.queue[1:])
	p.queue[commits-1] = 0
	p.queued--
	p.acked++
}
