package lanes

import (
	"math"
	"time"
)

// Record is a record in a lane.
type Record[M any] struct {
	Topic   string
	Ticket  uint64
	Size    int64 // router.Record.Size
	Tag     any   // of the acknowledgement; nil for nearly all
	Message M     // the sender's
}

// Batch is what a lane has in flight. Its number is never used again, so an answer that comes late matches nothing.
type Batch struct {
	Lane    int
	Records int
	number  uint64
}

// The pauses of a lane whose first record is not taken.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

const none = int32(-1)

// State is the state of all lanes. Its calls return at once, and the caller knows the time. Add takes the records of a
// lane in their order, Next gives what may be sent, Settle takes the answer.
type State[M any] struct {
	most  int // records of a batch
	lanes []lane
	slots []slot[M]
	free  int32 // the first free slot
	turn  int   // of records without a key

	first, last int32   // of the lanes that may send now, linked by lane.next
	pausing     []int32 // lanes that wait until lane.due
	nextDue     time.Time

	numbers uint64
	sending int // batches in flight
	records int
	bytes   int64
	done    []Record[M] // settled, and not taken by Done; without messages
}

// lane is a queue of slots, of which the first `sent` are in flight.
type lane struct {
	head, tail int32
	next       int32 // lane that may send after this one
	sent       int32
	queued     int32
	attempt    uint8
	pauses     bool
	number     uint64 // of the batch in flight
	due        time.Time
}

type slot[M any] struct {
	Record[M]
	next int32
}

// NewState makes a state of so many lanes, whose batches have at most so many records.
func NewState[M any](count, most int) *State[M] {
	s := &State[M]{most: most, lanes: make([]lane, count), free: none, first: none, last: none}
	for i := range s.lanes {
		s.lanes[i] = lane{head: none, tail: none, next: none}
	}
	return s
}

// Lane returns the lane of a key. Keys of one lane wait for each other.
func (s *State[M]) Lane(key []byte) int {
	if key == nil {
		s.turn = (s.turn + 1) % len(s.lanes)
		return s.turn
	}
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return int((h ^ h>>32) % uint64(len(s.lanes)))
}

// Add appends a record to a lane.
func (s *State[M]) Add(number int, r Record[M]) {
	at := s.free
	if at == none {
		at = int32(len(s.slots))
		s.slots = append(s.slots, slot[M]{})
	} else {
		s.free = s.slots[at].next
	}
	s.slots[at] = slot[M]{Record: r, next: none}
	l := &s.lanes[number]
	if l.tail == none {
		l.head = at
	} else {
		s.slots[l.tail].next = at
	}
	l.tail = at
	l.queued++
	s.records++
	s.bytes += r.Size
	if l.queued == 1 {
		s.mayBegin(int32(number))
	}
}

// mayBegin appends a lane to the lanes that may send.
func (s *State[M]) mayBegin(number int32) {
	s.lanes[number].next = none
	if s.last == none {
		s.first = number
	} else {
		s.lanes[s.last].next = number
	}
	s.last = number
}

// Next returns a batch that is to be sent now, false for none. It is in flight until Settle or Again.
func (s *State[M]) Next(now time.Time) (Batch, bool) {
	s.wake(now)
	number := s.first
	if number == none {
		return Batch{}, false
	}
	l := &s.lanes[number]
	if s.first = l.next; s.first == none {
		s.last = none
	}
	s.numbers++
	s.sending++
	l.number, l.sent = s.numbers, min(l.queued, int32(s.most))
	return Batch{Lane: int(number), Records: int(l.sent), number: l.number}, true
}

// wake ends the pauses that are over.
func (s *State[M]) wake(now time.Time) {
	if len(s.pausing) == 0 || now.Before(s.nextDue) {
		return
	}
	left := s.pausing[:0]
	s.nextDue = time.Time{}
	for _, number := range s.pausing {
		if l := &s.lanes[number]; now.Before(l.due) {
			left = append(left, number)
			s.dueAt(l.due)
		} else {
			l.pauses = false
			s.mayBegin(number)
		}
	}
	s.pausing = left
}

func (s *State[M]) dueAt(t time.Time) {
	if s.nextDue.IsZero() || t.Before(s.nextDue) {
		s.nextDue = t
	}
}

// Due is when the next pause ends, zero if no lane pauses.
func (s *State[M]) Due() time.Time { return s.nextDue }

// Messages appends the messages of a batch in flight to a slice. It appends none of a batch that is not.
func (s *State[M]) Messages(b Batch, into []M) []M {
	if !s.current(b) {
		return into
	}
	at := s.lanes[b.Lane].head
	for range b.Records {
		into = append(into, s.slots[at].Message)
		at = s.slots[at].next
	}
	return into
}

// current reports whether the batch is in flight.
func (s *State[M]) current(b Batch) bool {
	return b.number != 0 && s.lanes[b.Lane].number == b.number
}

// Settle takes the answer to a batch: so many of its records, from its first, are in the log. The others are sent again
// after a pause, before anything that follows them. It returns false if the batch is not in flight any more.
func (s *State[M]) Settle(b Batch, stored int, now time.Time) bool {
	if !s.current(b) || stored < 0 || stored > b.Records {
		return false
	}
	l := &s.lanes[b.Lane]
	for range stored {
		s.take(l)
	}
	s.sending--
	l.number, l.sent = 0, 0
	if stored > 0 {
		l.attempt = 0
	}
	switch {
	case stored < b.Records:
		l.due, l.pauses = now.Add(pause(l.attempt)), true
		if l.attempt < math.MaxUint8 {
			l.attempt++
		}
		s.pausing = append(s.pausing, int32(b.Lane))
		s.dueAt(l.due)
	case l.queued > 0:
		s.mayBegin(int32(b.Lane))
	}
	return true
}

func pause(attempt uint8) time.Duration {
	return min(firstPause<<min(attempt, 10), mostPause)
}

// take moves the first record of a lane to the records that are done.
func (s *State[M]) take(l *lane) {
	at := l.head
	one := &s.slots[at]
	if l.head = one.next; l.head == none {
		l.tail = none
	}
	l.queued--
	s.records--
	s.bytes -= one.Size
	r := one.Record
	clear(s.slots[at : at+1])
	s.slots[at].next, s.free = s.free, at
	var nothing M
	r.Message = nothing
	s.done = append(s.done, r)
}

// Again has everything sent again that is in flight: no answer comes any more, because the connection is closed.
func (s *State[M]) Again() {
	for i := range s.lanes {
		if l := &s.lanes[i]; l.number != 0 {
			l.number, l.sent = 0, 0
			s.mayBegin(int32(i))
		}
	}
	s.sending = 0
}

// Done appends the records that are settled to a slice, each once. They have no messages.
func (s *State[M]) Done(into []Record[M]) []Record[M] {
	into = append(into, s.done...)
	clear(s.done)
	s.done = s.done[:0]
	return into
}

// Abandon gives up all records, except what Done has returned.
func (s *State[M]) Abandon() (records int, bytes int64) {
	records, bytes = s.records+len(s.done), s.bytes
	for i := range s.done {
		bytes += s.done[i].Size
	}
	empty := NewState[M](len(s.lanes), s.most)
	empty.numbers, empty.turn = s.numbers, s.turn
	*s = *empty
	return records, bytes
}
