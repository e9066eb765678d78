package consumer

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func heldLetter(offset int, id string, class Class, change ...Header) Message {
	headers := []Header{
		{Key: HeaderGroup, Value: []byte("g")},
		{Key: HeaderTopic, Value: []byte("t")},
		{Key: HeaderPartition, Value: []byte("3")},
		{Key: HeaderOffset, Value: []byte(strconv.Itoa(offset))},
		{Key: HeaderClass, Value: []byte(class)},
		{Key: HeaderHold, Value: []byte("k " + id)},
	}
	return Message{Offset: int64(offset), Headers: append(change, headers...)} // the first of a name counts
}

func heldMark(offset int, mark, group, handled string) Message {
	m := Message{Headers: []Header{
		{Key: markHeader, Value: []byte(mark)},
		{Key: markGroup, Value: []byte(group)},
		{Key: markPosition, Value: []byte("t/3@" + strconv.Itoa(offset))},
	}}
	if handled != "" {
		m.Headers = append(m.Headers, Header{Key: markHandled, Value: []byte(handled)})
	}
	return m
}

func TestHolds(t *testing.T) {
	for name, c := range map[string]struct {
		records  []Message
		first    string // id
		released string
		letters  int
	}{
		"none": {},
		"a first letter and a waiting one": {
			[]Message{heldLetter(1, "a", Refused), heldLetter(2, "b", Waiting)}, "a", "", 2,
		},
		"published is still to come": {
			[]Message{
				heldLetter(1, "a", Refused), heldLetter(2, "b", Waiting), heldMark(1, markPublished, "g", ""),
			}, "a", "", 2,
		},
		"handled": {
			[]Message{
				heldLetter(1, "a", Refused), heldLetter(2, "b", Waiting), heldMark(1, markPublished, "g", "true"),
			}, "", "b", 1,
		},
		"dismissed": {
			[]Message{
				heldLetter(1, "a", Refused), heldLetter(2, "b", Waiting), heldMark(1, markDismissed, "g", ""),
			}, "", "b", 1,
		},
		"dismissed by another group": {
			[]Message{heldLetter(1, "a", Refused), heldMark(1, markDismissed, "h", "")}, "a", "", 1,
		},
		"numbers are ordered as numbers": {
			[]Message{heldLetter(10, "b", Waiting), heldLetter(9, "a", Waiting)}, "", "a", 2,
		},
		"a waiting one that has failed": {
			[]Message{
				heldLetter(2, "b", Waiting), heldLetter(3, "c", Waiting), heldLetter(2, "b", Exhausted),
				heldLetter(2, "b", Waiting),
			}, "b", "", 2,
		},
		"of another group": {
			[]Message{heldLetter(1, "a", Refused, Header{Key: HeaderGroup, Value: []byte("h")})}, "", "", 0,
		},
		"of another partition": {
			[]Message{heldLetter(1, "a", Refused, Header{Key: HeaderPartition, Value: []byte("4")})},
			"", "", 0,
		},
		"of before": {
			[]Message{heldLetter(1, "a", Refused, Header{Key: HeaderHold})}, "", "", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHolds("g", "t", 3)
			for _, m := range c.records {
				h.add(m)
			}
			id := func(l *held) string {
				if l == nil {
					return ""
				}
				return l.id
			}
			require.Equal(t, c.first, id(h.first("k")))
			require.Equal(t, c.released, id(h.released("k")))
			require.Len(t, h.origins, c.letters)
			require.Equal(t, c.released != "", len(h.free()) == 1)
			h.expire(0, 100)
			require.Empty(t, h.keys)
			require.Len(t, h.lost, c.letters)
		})
	}
}

// A dismissal is remembered for records that are still to be read, and until a letter comes after it.
func TestDismissedRecords(t *testing.T) {
	h := newHolds("g", "t", 3)
	h.begin(5)
	dismissal := func(offset int, at int64) Message {
		m := heldMark(offset, markDismissed, "g", "")
		m.Offset, m.Headers = at, append(m.Headers, Header{Key: "id", Value: []byte("a")})
		return m
	}
	h.add(dismissal(4, 100))
	h.add(dismissal(5, 101))
	h.add(dismissal(6, 102))
	at := func(offset int64, id string) Message {
		return Message{Offset: offset, ID: id}
	}
	require.False(t, h.isDismissed(at(4, "a")))
	require.True(t, h.isDismissed(at(5, "a")))
	require.False(t, h.isDismissed(at(5, "b")), "the topic was created again")

	h.add(heldLetter(5, "a", Refused)) // an older copy in the same partition
	other := heldLetter(5, "a", Refused)
	other.Partition, other.Offset = 1, 200
	h.add(other)
	require.Empty(t, h.keys)
	later := heldLetter(5, "a", Refused)
	later.Offset = 103
	h.add(later)
	require.Equal(t, "a", h.first("k").id)
	require.False(t, h.isDismissed(at(5, "a")))

	h.begin(7)
	require.Empty(t, h.dismissed)
}

// What is known of settled letters ends with their marks in the topic, also in a process that runs for months.
//
// Bug (letters): Settled letters were remembered forever. Cost: memory grew with each.
func TestSettledLettersAreForgotten(t *testing.T) {
	l := newOpenLetters("g")
	for i := range 100 {
		letter, mark := heldLetter(i, "a", Refused), heldMark(i, markPublished, "g", "")
		letter.Offset, mark.Offset = int64(2*i), int64(2*i+1)
		l.add(letter)
		l.add(mark)
	}
	require.Empty(t, l.open)
	l.expire(1, 1000)
	require.Len(t, l.settled, 100)
	l.expire(0, 198)
	require.Len(t, l.settled, 1)
}

// Letters that were written and are not in the topic: a waiting one is left to its record, a first one is lost, and the
// letter that is sought is left to its caller. One that is written once more may be there.
func TestLettersThatAreGone(t *testing.T) {
	h := newHolds("g", "t", 3)
	h.add(heldLetter(1, "read", Refused))
	h.put("k", "waiting", 2, true)
	lost := h.put("l", "lost", 3, false)
	sought := h.put("m", "sought", 4, false)
	h.giveUp(sought)
	require.Equal(t, []*held{lost}, h.lost)
	gone := map[string]bool{}
	for _, l := range h.origins {
		gone[l.id] = l.gone
	}
	require.Equal(t, map[string]bool{"read": false, "waiting": true, "sought": true}, gone)
	require.False(t, h.put("m", "sought", 4, false).gone)
}
