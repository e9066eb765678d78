package deadletter

import (
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// State is the known result of a letter's retries.
type State string

const (
	Open        State = "open"
	Retried     State = "retried"
	Dismissed   State = "dismissed"   // an operator has decided that it is not to be published
	Interrupted State = "interrupted" // a retry began and did not say how it ended: the record may have been published
)

// Mark is the progress that a retry writes to the dead-letter topic: Begun before it publishes the record, then one of
// the others.
type Mark string

const (
	Begun     Mark = "begun"
	Published Mark = "published"
	Withdrawn Mark = "withdrawn" // nothing was published
	Dismissal Mark = "dismissed" // nothing is to be published
)

// IsOpen reports whether the letter still needs a decision.
func (e *Entry) IsOpen() bool { return e.State == Open || e.State == Interrupted }

// Entry is a letter with its retries.
type Entry struct {
	Summary
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"` // of the first copy
	Copies    int       `json:"copies"` // more than one after a crash
	State     State     `json:"state"`
	RetriedAt time.Time `json:"retried_at,omitzero"`

	attempts map[string]attempt
	holds    map[int32]int64 // offset of the last letter that holds its key, by partition
}

type attempt struct {
	mark      Mark
	partition int32
	begun     int64 // offset of the mark
	at        int64 // offset of the last mark
}

// identity is the same in all copies of a letter. The owner is a slot or a consumer group.
type identity struct{ owner, position, id string }

// Ledger gathers the dead-letter topic's records, in any order of partitions.
type Ledger struct {
	entries map[identity]*Entry
	Strange int // records that are neither letters nor marks, or of a newer version
}

// Add takes a record. It keeps nothing of its value.
func (l *Ledger) Add(r *Record) {
	if mark, ok := find(r.Headers, headerRetry); ok {
		l.applyMark(r, Mark(mark))
		return
	}
	s, err := Summarize(r)
	if err != nil {
		l.Strange++
		return
	}
	e := l.entry(identity{s.owner(), s.Position, s.ID})
	if e.Copies > 0 && r.Partition == e.Partition && r.Offset == e.Offset {
		return // read twice: from a file and from the topic
	}
	e.Copies++
	if s.Holds {
		e.holdKey(r)
	}
	failed := e.WaitsFor != "" && s.WaitsFor == "" // it was tried since
	if e.Copies == 1 || failed || e.WaitsFor == s.WaitsFor && r.Partition == e.Partition && r.Offset < e.Offset {
		e.Summary, e.Partition, e.Offset = s, r.Partition, r.Offset
	}
}

// Of returns the letter that a record is or marks; nil: it is neither, or Add has not seen it.
func (l *Ledger) Of(r *Record) *Entry {
	if IsMark(r.Headers) {
		return l.entries[marked(r)]
	}
	s, err := Summarize(r)
	if err != nil {
		return nil
	}
	return l.entries[identity{s.owner(), s.Position, s.ID}]
}

// IsMark reports whether the headers belong to a mark.
func IsMark(headers []router.Header) bool {
	_, ok := find(headers, headerRetry)
	return ok
}

// marked identifies the letter of a mark.
func marked(r *Record) identity {
	text := func(name string) string { v, _ := find(r.Headers, name); return string(v) }
	return identity{text(headerSlot), text(headerPosition), text(headerID)}
}

func (l *Ledger) entry(of identity) *Entry {
	if l.entries == nil {
		l.entries = map[identity]*Entry{}
	}
	e := l.entries[of]
	if e == nil {
		e = &Entry{State: Open, attempts: map[string]attempt{}}
		l.entries[of] = e
	}
	return e
}

func (l *Ledger) applyMark(r *Record, mark Mark) {
	v, _ := find(r.Headers, headerAttempt)
	name := string(v)
	if name == "" || !slices.Contains([]Mark{Begun, Published, Withdrawn, Dismissal}, mark) {
		l.Strange++
		return
	}
	e := l.entry(marked(r))
	a, known := e.attempts[name]
	if mark == Begun {
		if known {
			return
		}
		a = attempt{mark: Begun, partition: r.Partition, begun: r.Offset}
	} else {
		if !known {
			a.partition, a.begun = r.Partition, r.Offset
		}
		a.mark = mark
	}
	a.at = r.Offset
	e.attempts[name] = a
	if mark == Published {
		e.RetriedAt = time.UnixMilli(r.Timestamp).UTC()
	}
	e.State = e.stateOfAttempts()
}

// holdKey takes a letter that holds its key. Its event was tried after the earlier marks, and holds its key again.
func (e *Entry) holdKey(r *Record) {
	if e.holds == nil {
		e.holds = map[int32]int64{}
	}
	e.holds[r.Partition] = max(e.holds[r.Partition], r.Offset)
	e.State = e.stateOfAttempts()
}

// isOver reports whether the attempt has ended before a letter that holds its key again. A mark of a file has no place
// in the topic.
func (e *Entry) isOver(a attempt) bool {
	return a.mark != Begun && a.at >= 0 && a.at < e.holds[a.partition]
}

func (e *Entry) stateOfAttempts() State {
	state := Open
	for _, a := range e.attempts {
		if e.isOver(a) {
			continue
		}
		switch a.mark {
		case Published:
			return Retried
		case Dismissal:
			state = Dismissed
		case Begun:
			if state == Open {
				state = Interrupted
			}
		}
	}
	return state
}

// Attempts names the retries known so far.
func (e *Entry) Attempts() map[string]bool {
	known := make(map[string]bool, len(e.attempts))
	for name := range e.attempts {
		known[name] = true
	}
	return known
}

// Knows reports whether the attempt's mark has been read.
func (e *Entry) Knows(name string) bool { _, ok := e.attempts[name]; return ok }

// Rival reports whether another process began to retry the letter before the attempt, unknown to it. Marks of a letter
// are in one partition, so all readers see them in the same order, and exactly one of several attempts continues. The
// exception is a letter without a key that the topic holds twice: two readers may take different copies for the first,
// and then neither continues.
func (e *Entry) Rival(name string, known map[string]bool) bool {
	mine, ok := e.attempts[name]
	if !ok {
		return true // our own mark is not there: nothing is certain
	}
	for other, a := range e.attempts {
		if other != name && !known[other] && a.mark != Withdrawn && a.mark != Dismissal &&
			(a.begun < mine.begun || a.partition != mine.partition) {
			return true
		}
	}
	return false
}

// Entries lists the letters by position.
func (l *Ledger) Entries() []*Entry {
	var out []*Entry
	for _, e := range l.entries {
		if e.Copies > 0 { // otherwise retention has deleted the letter, and left its marks
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *Entry) int {
		return a.Compare(b)
	})
	return out
}

// MarkRecord is the record of a mark. It lies in the letter's partition.
func (e *Entry) MarkRecord(topic, attempt string, mark Mark, now time.Time) *router.Record {
	return &router.Record{
		Topic: topic, Partition: e.Partition, Key: []byte(e.Position), Value: []byte(mark), Timestamp: now.UnixMilli(),
		Headers: []router.Header{
			{Key: headerID, Value: []byte(e.ID)},
			{Key: headerPosition, Value: []byte(e.Position)},
			{Key: headerSlot, Value: []byte(e.owner())},
			{Key: headerRetry, Value: []byte(mark)},
			{Key: headerAttempt, Value: []byte(attempt)},
		},
	}
}
