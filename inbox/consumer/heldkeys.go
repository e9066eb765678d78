package consumer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// holds has the keys that a partition holds, and their letters from the dead-letter topic. A key is held
// while it has a letter here. It is pure.
//
// A first letter is that of an event that was tried and failed. It ends when the event is read again and handled, or
// when an operator dismisses it; not when a retry has published it, because the record is then still to come. A waiting
// letter is that of an event that came meanwhile. It ends when it is handled, after the last first letter of its key
// has ended.
type holds struct {
	group, topic string
	partition    int
	keys         map[string][]*held // by keyHash, by the offsets of the letters' records
	origins      map[string]*held
	next         map[int]int64  // of the dead-letter topic
	lost         []*held        // letters that retention has deleted since the topic was last read
	from         int64          // next offset of the partition
	dismissed    map[int64]mark // by the offsets of records, not before from; see isDismissed
}

// mark is the record that dismissed a letter.
type mark struct {
	place
	id string // see listedID
}

// held is one letter.
type held struct {
	hash    string
	origin  string // where the record was
	offset  int64
	id      string
	listed  string // id, see listedID; empty until it was read
	waiting bool
	at      *place // in the dead-letter topic; nil: just written, and not read again yet
	gone    bool   // it was written, and is not in the topic
}

func newHolds(group, topic string, partition int) *holds {
	return &holds{
		group: group, topic: topic, partition: partition,
		keys: map[string][]*held{}, origins: map[string]*held{}, next: map[int]int64{}, dismissed: map[int64]mark{},
	}
}

// keyHash stands for a key, which may be long, or missing from a letter that was cut.
func keyHash(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// holdOf is the value of HeaderHold.
func holdOf(m Message) string { return keyHash(m.Key) + " " + m.ID }

// listedID is the id by which dead-letter knows a record's letter: the relay's id if the record has one, although
// Options.ID may have taken another.
func listedID(headers []Header, id string) string {
	return cmp.Or(first(headers, "id"), first(headers, "ce_id"), id)
}

// passes reports whether nothing is known that the record has to wait for.
func (h *holds) passes(m Message, limit int) bool {
	return m.Key == nil || len(h.origins) < limit && !h.isDismissed(m) &&
		(len(h.keys) == 0 || len(h.keys[keyHash(m.Key)]) == 0)
}

// add takes a record of the dead-letter topic.
func (h *holds) add(m Message) {
	if what := first(m.Headers, markHeader); what != "" {
		ends := what == markDismissed || what == markPublished && first(m.Headers, markHandled) != ""
		if ends && first(m.Headers, markGroup) == h.group {
			at := first(m.Headers, markPosition)
			h.drop(h.origins[at])
			if what == markDismissed {
				h.dismiss(at, mark{place{partition: m.Partition, offset: m.Offset}, first(m.Headers, "id")})
			}
		}
		return
	}
	hash, id, ok := strings.Cut(first(m.Headers, HeaderHold), " ")
	partition, offset := first(m.Headers, HeaderPartition), first(m.Headers, HeaderOffset)
	if !ok || first(m.Headers, HeaderGroup) != h.group || first(m.Headers, HeaderTopic) != h.topic ||
		partition != strconv.Itoa(h.partition) {
		return
	}
	n, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return
	}
	listed := listedID(m.Headers, id)
	if mark, ok := h.dismissed[n]; ok && mark.id == listed {
		if !mark.before(m) {
			return
		}
		delete(h.dismissed, n)
	}
	l := h.put(hash, id, n, Class(first(m.Headers, HeaderClass)) == Waiting)
	l.listed = listed
	l.at = &place{partition: m.Partition, offset: m.Offset, source: h.topic}
}

// dismiss notes that the letter of a record that is still to be read was dismissed.
func (h *holds) dismiss(at string, m mark) {
	text, ok := strings.CutPrefix(at, origin(h.topic, strconv.Itoa(h.partition), ""))
	if n, err := strconv.ParseInt(text, 10, 64); ok && err == nil && n >= h.from {
		h.dismissed[n] = m
	}
}

// isDismissed reports whether the letter of the record was dismissed. Its offset was not committed then: the process
// ended between the letter and the commit, or the group's offset was set back. Another event may be at the offset, if
// the topic was created again.
func (h *holds) isDismissed(m Message) bool {
	mark, ok := h.dismissed[m.Offset]
	return ok && mark.id == listedID(m.Headers, m.ID)
}

// begin forgets the dismissals of the records before next.
func (h *holds) begin(next int64) {
	h.from = next
	maps.DeleteFunc(h.dismissed, func(offset int64, _ mark) bool { return offset < next })
}

// put takes the letter of the record at the offset. A waiting letter that has failed itself is a first letter.
func (h *holds) put(hash, id string, offset int64, waiting bool) *held {
	at := origin(h.topic, strconv.Itoa(h.partition), strconv.FormatInt(offset, 10))
	if l := h.origins[at]; l != nil {
		l.waiting, l.gone = l.waiting && waiting, false
		return l
	}
	l := &held{hash: hash, origin: at, offset: offset, id: id, waiting: waiting}
	h.origins[at] = l
	i, _ := slices.BinarySearchFunc(h.keys[hash], l, func(a, b *held) int { return cmp.Compare(a.offset, b.offset) })
	h.keys[hash] = slices.Insert(h.keys[hash], i, l)
	return l
}

// drop forgets a letter, which may be nil.
func (h *holds) drop(l *held) {
	if l == nil || h.origins[l.origin] != l {
		return
	}
	delete(h.origins, l.origin)
	h.keys[l.hash] = slices.DeleteFunc(h.keys[l.hash], func(o *held) bool { return o == l })
	if len(h.keys[l.hash]) == 0 {
		delete(h.keys, l.hash)
	}
}

// expire forgets the letters that retention has deleted from the topic.
func (h *holds) expire(partition int, start int64) {
	for _, l := range h.origins {
		if l.at != nil && l.at.partition == partition && l.at.offset < start {
			h.drop(l)
			h.lost = append(h.lost, l)
		}
	}
}

// startOver makes the next read begin at the start of the topic, which was created again. Letters that it still holds
// are found again.
func (h *holds) startOver() {
	for _, l := range h.origins {
		l.at = nil
	}
	clear(h.dismissed)
	clear(h.next)
}

// giveUp is called when the topic was read to its end and does not hold a letter that was written. Then it holds no
// letter that was not read since: its cleanup or an operator has deleted them. The record of a waiting letter may still
// exist.
func (h *holds) giveUp(sought *held) {
	for _, l := range h.origins {
		switch {
		case l.at != nil:
		case l == sought, l.waiting:
			l.gone = true
		default:
			h.drop(l)
			h.lost = append(h.lost, l)
		}
	}
}

func (h *holds) offsets() map[int]int64 { return h.next }

// first returns the first letter for which the others of the key wait; nil: there is none.
func (h *holds) first(hash string) *held {
	for _, l := range h.keys[hash] {
		if !l.waiting {
			return l
		}
	}
	return nil
}

// firsts returns the first letters of an event, more than one if a retry has failed.
func (h *holds) firsts(hash, id string) []*held {
	var of []*held
	for _, l := range h.keys[hash] {
		if !l.waiting && l.id == id {
			of = append(of, l)
		}
	}
	return of
}

// queued reports whether an event waits already.
func (h *holds) queued(hash, id string) bool {
	return slices.ContainsFunc(h.keys[hash], func(l *held) bool { return l.waiting && l.id == id })
}

// released returns the waiting letter that is to be handled next; nil: a first letter holds the key, or none is held.
func (h *holds) released(hash string) *held {
	if len(h.keys[hash]) == 0 || h.first(hash) != nil {
		return nil
	}
	return h.keys[hash][0]
}

// free lists the keys that no first letter holds any more.
func (h *holds) free() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h.keys)), func(hash string) bool { return h.first(hash) != nil })
}
