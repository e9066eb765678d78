package deadletter

import (
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/router/outbox"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// topic is a dead-letter topic of one partition.
type topic struct {
	records []*Record
}

func (k *topic) write(rec *router.Record) {
	k.records = append(k.records, &Record{
		Partition: max(rec.Partition, 0), Offset: int64(len(k.records)), Timestamp: rec.Timestamp, Key: rec.Key,
		Value: rec.Value, Headers: rec.Headers,
	})
}

func (k *topic) ledger() *Ledger {
	l := &Ledger{}
	for _, r := range k.records {
		l.Add(r)
	}
	return l
}

func letterOf(id, position string) *router.Record {
	tuple := plainRow()
	tuple[0] = text(id)
	c := aCase(tuple, 0)
	c.Position = []byte(position)
	return builder.Letter(c, now)
}

func TestLedger(t *testing.T) {
	k := &topic{}
	k.write(letterOf("b", "2"))
	k.write(letterOf("a", "1"))
	k.write(letterOf("b", "2")) // the repeat after a crash
	k.write(&router.Record{Value: []byte("another application's")})
	l := k.ledger()
	require.Equal(t, 1, l.Strange)
	got := l.Entries()
	require.Len(t, got, 2)
	require.Equal(t, []string{"a", "b"}, []string{got[0].ID, got[1].ID})
	require.Equal(t, 2, got[1].Copies)
	require.Zero(t, got[1].Offset)
	require.Equal(t, Open, got[1].State)

	for _, step := range []struct {
		attempt string
		mark    Mark
		want    State
	}{
		{"x", Begun, Interrupted},
		{"x", Withdrawn, Open},
		{"y", Begun, Interrupted},
		{"z", Begun, Interrupted},
		{"z", Withdrawn, Interrupted},
		{"y", Published, Retried},
		{"w", Begun, Retried},
		{"w", Begun, Retried},
	} {
		k.write(got[1].MarkRecord("letters", step.attempt, step.mark, now.Add(time.Minute)))
		e := k.ledger().Entries()[1]
		require.Equal(t, step.want, e.State, "%s %s", step.attempt, step.mark)
	}
	require.Equal(t, now.Add(time.Minute).UTC(), k.ledger().Entries()[1].RetriedAt)
	require.Equal(t, Open, k.ledger().Entries()[0].State)

	// Partitions are read one after the other, so marks can come before their letters.
	l = &Ledger{}
	for i := range k.records {
		l.Add(k.records[len(k.records)-1-i])
	}
	require.Equal(t, Retried, l.Entries()[1].State)
	l = &Ledger{}
	for _, r := range k.records[4:] {
		l.Add(r)
	}
	require.Empty(t, l.Entries(), "marks of a letter that retention has deleted")
}

// Of two that retry the same letter at once exactly one goes on.
func TestRivals(t *testing.T) {
	k := &topic{}
	k.write(letterOf("a", "1"))
	before := k.ledger().Entries()[0]
	k.write(before.MarkRecord("letters", "old", Begun, now))
	known := k.ledger().Entries()[0].Attempts()
	k.write(before.MarkRecord("letters", "first", Begun, now))
	k.write(before.MarkRecord("letters", "second", Begun, now))
	e := k.ledger().Entries()[0]
	require.False(t, e.Rival("first", known))
	require.True(t, e.Rival("second", known))
	require.True(t, e.Rival("first", nil), "who did not know of the old one")
	require.True(t, e.Rival("unwritten", known))
	k.write(before.MarkRecord("letters", "first", Published, now))
	require.True(t, k.ledger().Entries()[0].Rival("second", known), "published is published")
	k.write(before.MarkRecord("letters", "third", Begun, now))
	k.write(before.MarkRecord("letters", "second", Withdrawn, now))
	require.True(t, k.ledger().Entries()[0].Rival("third", known))
}

// Offsets of two partitions say nothing about who was first.
func TestRivalsInTwoPartitions(t *testing.T) {
	k := &topic{}
	k.write(letterOf("a", "1"))
	e := k.ledger().Entries()[0]
	k.write(e.MarkRecord("letters", "first", Begun, now))
	k.write(e.MarkRecord("letters", "second", Begun, now))
	k.records[2].Partition++
	e = k.ledger().Entries()[0]
	require.True(t, e.Rival("first", nil))
	require.True(t, e.Rival("second", nil))
}

func TestCorrect(t *testing.T) {
	tuple := plainRow()
	tuple[2], tuple[5] = null, text(string(make([]byte, maxColumn+1)))
	l, err := Parse(asRead(builder.Letter(aCase(tuple, 0), now)))
	require.NoError(t, err)
	_, _, err = l.Row.Restore(l.Value)
	require.ErrorContains(t, err, "headers")
	topic, key := "order", "43"
	l.Row.Correct("aggregate_type", &topic)
	l.Row.Correct("aggregate_id", &key)
	l.Row.Correct("headers", nil)
	l.Row.Correct("added", &key)
	require.True(t, l.Row.Complete())
	rel, back, err := l.Row.Restore(l.Value)
	require.NoError(t, err)
	r, err := outbox.New(outbox.Config{Columns: outbox.DefaultColumns(), Topic: outbox.DefaultTopic})
	require.NoError(t, err)
	rec, err := r.Route(rel, back, router.Source{Position: []byte(l.Position), CommitTime: l.CommitTime})
	require.NoError(t, err)
	require.Equal(t, "order.events", rec.Topic)
	require.Equal(t, "43", string(rec.Key))
	require.Equal(t, `{"n": 1.50}`, string(rec.Value))
	require.Equal(t, "43", string(back[rel.Column("added")].Data))
}

// A letter that holds its key and comes after a mark is open again: its event was tried once more, and the key is held.
// A copy from before the mark changes nothing, in whichever order the two are read, and neither does a mark of a file.
func TestLedgerOfAKeyThatIsHeldAgain(t *testing.T) {
	letter := func(offset int64, hold bool) *Record {
		r := &Record{Offset: offset, Headers: []router.Header{
			{Key: headerID, Value: []byte("a")},
			{Key: consumerGroup, Value: []byte("g")},
			{Key: consumerTopic, Value: []byte("t")},
			{Key: consumerPartition, Value: []byte("0")},
			{Key: consumerOffset, Value: []byte("7")},
		}}
		if hold {
			r.Headers = append(r.Headers, router.Header{Key: consumerHold, Value: []byte("k a")})
		}
		return r
	}
	for _, mark := range []Mark{Published, Dismissal} {
		for name, c := range map[string]struct {
			at, again int64
			hold      bool
			open      bool
		}{
			"after the mark":       {5, 6, true, true},
			"before the mark":      {5, 4, true, false},
			"the mark is a file's": {-1, 6, true, false},
			"it holds nothing":     {5, 6, false, false},
		} {
			t.Run(string(mark)+", "+name, func(t *testing.T) {
				first := letter(3, c.hold)
				var of Ledger
				of.Add(first)
				made := of.Entries()[0].MarkRecord("t.DLT", "try", mark, now)
				marked := &Record{Offset: c.at, Headers: made.Headers}
				for _, records := range [][]*Record{
					{first, marked, letter(c.again, c.hold)}, {first, letter(c.again, c.hold), marked},
				} {
					var l Ledger
					for _, r := range records {
						l.Add(r)
					}
					require.Len(t, l.Entries(), 1)
					require.Equal(t, c.open, l.Entries()[0].IsOpen())
				}
			})
		}
	}
}
