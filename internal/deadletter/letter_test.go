package deadletter

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

var builder = Builder{
	Topic: "letters", Slot: "shop",
	Columns: Columns{ID: "id", Key: "aggregate_id", Type: "event_type", Payload: "payload"},
}

var now = time.UnixMilli(1_795_249_020_123)

func relation(payloadType uint32) *pgoutput.Relation {
	return &pgoutput.Relation{OID: 7, Namespace: "public", Name: "outbox", Columns: []pgoutput.Column{
		{Name: "id", TypeOID: 2950},
		{Name: "aggregate_type", TypeOID: 25},
		{Name: "aggregate_id", TypeOID: 25},
		{Name: "event_type", TypeOID: 25},
		{Name: "payload", TypeOID: payloadType},
		{Name: "headers", TypeOID: 3802},
	}}
}

func text(s string) pgoutput.Value {
	return pgoutput.Value{Kind: pgoutput.Text, Data: []byte(s)}
}

var null = pgoutput.Value{Kind: pgoutput.Null}

func plainRow() pgoutput.Tuple {
	return pgoutput.Tuple{
		text("e1"), text("no/topic"), text("42"), text("placed"), text(`{"n": 1.50}`), text(`{"a": "b"}`),
	}
}

func aCase(tuple pgoutput.Tuple, payloadType uint32) *Case {
	return &Case{
		Relation: relation(payloadType), Tuple: tuple, Position: []byte("0000000016b374d8-00000001"),
		CommitTime: now.Add(-time.Second), Reason: router.IllegalTopic, Detail: "a topic cannot hold /",
	}
}

func asRead(rec *router.Record) *Record {
	return &Record{Timestamp: rec.Timestamp, Key: rec.Key, Value: rec.Value, Headers: rec.Headers}
}

func TestARowComesBackAsItWas(t *testing.T) {
	for name, tc := range map[string]struct {
		change      func(pgoutput.Tuple)
		payloadType uint32
		value       []byte
		key         []byte
		incomplete  bool
	}{
		"plain":       {value: []byte(`{"n": 1.50}`), key: []byte("42")},
		"a tombstone": {change: func(r pgoutput.Tuple) { r[4] = null }, key: []byte("42")},
		"no key":      {change: func(r pgoutput.Tuple) { r[2] = null }, value: []byte(`{"n": 1.50}`)},
		"an empty key": {
			change: func(r pgoutput.Tuple) { r[2] = text("") }, value: []byte(`{"n": 1.50}`), key: []byte{},
		},
		"no id": {
			change: func(r pgoutput.Tuple) { r[0] = null }, value: []byte(`{"n": 1.50}`), key: []byte("42"),
		},
		"bytea": {
			change: func(r pgoutput.Tuple) { r[4] = text(`\x00ff`) }, payloadType: oidBytea, value: []byte{0, 255},
			key: []byte("42"),
		},
		"an empty bytea": {
			change: func(r pgoutput.Tuple) { r[4] = text(`\x`) }, payloadType: oidBytea, value: []byte{},
			key: []byte("42"),
		},
		"escaped bytea": {
			change: func(r pgoutput.Tuple) { r[4] = text(`\000`) }, payloadType: oidBytea, value: []byte(`\000`),
			key: []byte("42"),
		},
		"binary payload": {
			change: func(r pgoutput.Tuple) { r[4].Kind = pgoutput.Binary }, value: []byte(`{"n": 1.50}`),
			key: []byte("42"),
		},
		"unchanged payload": {change: func(r pgoutput.Tuple) {
			r[4] = pgoutput.Value{Kind: pgoutput.Unchanged}
		}, key: []byte("42")},
		"binary column": {
			change: func(r pgoutput.Tuple) { r[5] = pgoutput.Value{Kind: pgoutput.Binary, Data: []byte{1}} },
			value:  []byte(`{"n": 1.50}`), key: []byte("42"),
		},
		"not UTF-8": {
			change: func(r pgoutput.Tuple) { r[5] = text("\xff\x00") }, value: []byte(`{"n": 1.50}`), key: []byte("42"),
		},
		"quotes and control": {
			change: func(r pgoutput.Tuple) { r[5] = text("\"\\\x01\u2028</script>") }, value: []byte(`{"n": 1.50}`),
			key: []byte("42"),
		},
		"a column of 16 KiB": {
			change: func(r pgoutput.Tuple) { r[5] = text(strings.Repeat("h", maxColumn)) },
			value:  []byte(`{"n": 1.50}`), key: []byte("42"),
		},
		"a longer one": {
			change: func(r pgoutput.Tuple) { r[5] = text(strings.Repeat("h", maxColumn+1)) },
			value:  []byte(`{"n": 1.50}`), key: []byte("42"), incomplete: true,
		},
		"a payload of a MiB": {
			change: func(r pgoutput.Tuple) { r[4] = text(strings.Repeat("p", 1<<20)) },
			value:  []byte(strings.Repeat("p", 1<<20)), key: []byte("42"),
		},
		"a key of a megabyte": {
			change: func(r pgoutput.Tuple) { r[2] = text(strings.Repeat("k", 1<<20)) }, value: []byte(`{"n": 1.50}`),
			incomplete: true,
		},
		"an id of a megabyte": {
			change: func(r pgoutput.Tuple) { r[0] = text(strings.Repeat("i", 1<<20)) }, value: []byte(`{"n": 1.50}`),
			key: []byte("42"), incomplete: true,
		},
		"every column is long": {change: func(r pgoutput.Tuple) {
			r[1], r[5] = text(strings.Repeat("\x01", maxColumn)), text(strings.Repeat("\x02", maxColumn))
		}, value: []byte(`{"n": 1.50}`), key: []byte("42"), incomplete: true},
	} {
		t.Run(name, func(t *testing.T) {
			tuple := plainRow()
			if tc.change != nil {
				tc.change(tuple)
			}
			c := aCase(tuple, tc.payloadType)
			rec := builder.Letter(c, now)
			require.Equal(t, "letters", rec.Topic)
			require.Equal(t, tc.value, rec.Value)
			require.Equal(t, tc.key, rec.Key)
			require.Equal(t, now.UnixMilli(), rec.Timestamp)
			l, err := Parse(asRead(rec))
			require.NoError(t, err)
			require.Equal(t, KindRow, l.Kind)
			require.Equal(t, "0000000016b374d8-00000001", l.Position)
			require.Equal(t, "public.outbox", l.Table)
			require.Equal(t, "illegal_topic", l.Reason)
			require.Equal(t, tuple[0].Kind == pgoutput.Text, l.HasID)
			require.True(t, c.CommitTime.Equal(l.CommitTime))
			require.Equal(t, tc.incomplete, !l.Row.Complete())
			if tc.incomplete {
				return
			}
			rel, back, err := l.Row.Restore(l.Value)
			require.NoError(t, err)
			require.Equal(t, tuple, back)
			require.Equal(t, c.Relation.Columns, rel.Columns)
		})
	}
}

// Earlier versions kept the record that Kafka refused instead of its row.
func TestARecordComesBackAsItWas(t *testing.T) {
	intended := &router.Record{
		Topic: "order.events", Key: []byte("42"), Value: []byte("{}"), Timestamp: 1234, Headers: []router.Header{
			{Key: "id", Value: []byte("e1")},
			{Key: "type", Value: nil},
			{Key: "position", Value: []byte("p")},
			{Key: "", Value: []byte{}},
			{Key: "twice", Value: []byte("1")},
			{Key: "twice", Value: []byte("2")},
			{Key: headerLetter, Value: []byte("pointer")},
			{Key: headerOriginal + "x", Value: []byte("3")},
		},
	}
	letter := &Record{Key: intended.Key, Value: intended.Value, Headers: []router.Header{
		{Key: headerID, Value: []byte("e1")},
		{Key: headerPosition, Value: []byte("p")},
		{Key: headerReason, Value: []byte(router.TooLarge)},
		{Key: headerTopic, Value: []byte(intended.Topic)},
		{Key: headerTimestamp, Value: []byte("1234")},
		{Key: headerPartition, Value: []byte("3")},
		{Key: headerBytes, Value: []byte("9")},
		{Key: headerLetter, Value: []byte(KindRecord)},
	}}
	for _, h := range intended.Headers {
		letter.Headers = append(letter.Headers, router.Header{Key: headerOriginal + h.Key, Value: h.Value})
	}
	l, err := Parse(letter)
	require.NoError(t, err)
	require.Equal(t, KindRecord, l.Kind)
	require.Equal(t, "order.events", l.Topic)
	require.Equal(t, int64(1234), l.Timestamp)
	require.Equal(t, intended.Headers, l.Headers)
	require.Equal(t, intended.Key, l.RecordKey)
	require.Equal(t, intended.Value, l.Value)
	require.Equal(t, int32(3), l.Partition)
	require.Equal(t, 9, l.Bytes)
	require.Equal(t, "e1", l.ID)
}

func TestShrink(t *testing.T) {
	tuple := plainRow()
	tuple[2], tuple[4] = text(strings.Repeat("k", 2000)), text(strings.Repeat("p", 1<<20))
	c := aCase(tuple, 0)
	c.Record = &router.Record{Topic: "order.events"}
	c.Bytes, c.Limit = 1<<20, 1000
	whole := builder.Letter(c, now)
	small, ok := Shrink(whole)
	require.True(t, ok)
	require.Less(t, small.Size(), 2000)
	l, err := Parse(asRead(small))
	require.NoError(t, err)
	require.Equal(t, KindPointer, l.Kind)
	require.Equal(t, "cut", l.Key)
	require.Nil(t, small.Key)
	require.Equal(t, []string{"key"}, l.Cut)
	require.Equal(t, "e1", l.ID)
	require.JSONEq(t, `{"table":"public.outbox","id":"e1","position":"0000000016b374d8-00000001",`+
		`"reason":"illegal_topic","topic":"order.events","bytes":1048576,"limit":1000}`, string(l.Value))
	_, ok = Shrink(small)
	require.False(t, ok, "it does not get smaller")
	_, ok = Shrink(&router.Record{})
	require.False(t, ok)
}

// The letter's own headers come first, so a reader of any record of the connector finds id, type and position.
func TestTheFirstThreeHeaders(t *testing.T) {
	tuple := plainRow()
	tuple[0], tuple[3] = null, null
	rec := builder.Letter(aCase(tuple, 0), now)
	require.Equal(t, []router.Header{
		{Key: "id"}, {Key: "type"}, {Key: "position", Value: []byte("0000000016b374d8-00000001")},
	}, rec.Headers[:3])
}

func TestAThousandColumns(t *testing.T) {
	c := aCase(nil, 0)
	for i := range 1600 {
		c.Relation.Columns = append(c.Relation.Columns, pgoutput.Column{
			Name: strings.Repeat("n", 60) + string(rune('a'+i%26)),
		})
	}
	c.Tuple = make(pgoutput.Tuple, len(c.Relation.Columns))
	for i := range c.Tuple {
		c.Tuple[i] = text("v")
	}
	l, err := Parse(asRead(builder.Letter(c, now)))
	require.NoError(t, err)
	require.False(t, l.Row.Complete())
}

// Whatever a row or record holds, a letter comes out that can be read again, is bounded, and gives back what it took.
func FuzzLetter(f *testing.F) {
	f.Add("e1", "42", "placed", "{}", "{}", "0-0", "detail", uint8(0))
	f.Add("\x00\xff", "", strings.Repeat("\u20ac", 2000), "\\x0", "\xf0\x9f", "", "\n\x1b[2J", uint8(1))
	f.Add(strings.Repeat("i", 5000), strings.Repeat("k", 20000), "", "", "", "p", "", uint8(2))
	f.Fuzz(func(t *testing.T, id, key, eventType, payload, headers, position, detail string, kinds uint8) {
		tuple := pgoutput.Tuple{text(id), text("t"), text(key), text(eventType), text(payload), text(headers)}
		for i := range tuple {
			switch kinds >> (i % 4 * 2) & 3 {
			case 1:
				tuple[i] = null
			case 2:
				tuple[i].Kind = pgoutput.Binary
			}
		}
		c := &Case{
			Relation: relation(uint32(kinds%2) * oidBytea), Tuple: tuple, Position: []byte(position),
			Reason: router.BadHeaders, Detail: detail,
		}
		rec := builder.Letter(c, now)
		require.LessOrEqual(t, rec.Size(), len(payload)+maxKey+4*maxRow+8*maxText, "bounded")
		l, err := Parse(asRead(rec))
		require.NoError(t, err)
		if l.Row.Complete() {
			_, back, err := l.Row.Restore(l.Value)
			require.NoError(t, err)
			for i := range tuple {
				require.Equal(t, tuple[i].Kind, back[i].Kind)
				if tuple[i].Kind == pgoutput.Text && c.Relation.Columns[i].TypeOID == oidBytea {
					require.True(t, strings.EqualFold(string(tuple[i].Data), string(back[i].Data)))
				} else {
					require.Equal(t, string(tuple[i].Data), string(back[i].Data))
				}
			}
		}
		if small, ok := Shrink(rec); ok {
			require.LessOrEqual(t, small.Size(), 16<<10)
			_, err := Parse(asRead(small))
			require.NoError(t, err)
		}
	})
}

// What others wrote into the topic must not break the commands that list the topic.
func FuzzParse(f *testing.F) {
	f.Add("row", "{}", []byte("v"))
	f.Add("record", `{"columns":[{"name":"a","kind":"x"}]}`, []byte(nil))
	f.Fuzz(func(_ *testing.T, kind, row string, value []byte) {
		l, err := Parse(&Record{Value: value, Headers: []router.Header{
			{Key: headerLetter, Value: []byte(kind)},
			{Key: headerPosition, Value: []byte(row)},
			{Key: headerRow, Value: []byte(row)},
			{Key: headerTimestamp, Value: []byte(row)},
			{Key: headerCommitTime, Value: []byte(row)},
			{Key: headerBytes, Value: []byte(row)},
		}})
		if err == nil && l.Row != nil {
			_, _, _ = l.Row.Restore(value)
		}
	})
}

func TestAnIDThatIsCutIsKnownByItsHash(t *testing.T) {
	tuple := plainRow()
	tuple[0] = text(strings.Repeat("i", 5000))
	letter := builder.Letter(aCase(tuple, 25), now)
	pointer, ok := Shrink(letter)
	require.True(t, ok)
	for _, rec := range []*router.Record{letter, pointer} {
		l, err := Parse(asRead(rec))
		require.NoError(t, err)
		require.True(t, l.CutID())
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(tuple[0].Data)), l.IDHash)
	}
}
