package pgoutput

import (
	"encoding/binary"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"

	"github.com/stretchr/testify/require"
)

// known is a decoder that has seen the relations of a transcript.
func known(t testing.TB, name string) *Decoder {
	d := &Decoder{}
	for _, msg := range goldenMessages(t, name) {
		require.NoError(t, d.Decode(new(Message), msg.lsn, msg.data))
	}
	return d
}

func firstOf(t testing.TB, name string, typ byte) []byte {
	for _, msg := range goldenMessages(t, name) {
		if msg.data[0] == typ {
			return msg.data
		}
	}
	t.Fatalf("%s has no %q", name, typ)
	return nil
}

func TestDecoderRefusesOtherBytes(t *testing.T) {
	oid := binary.BigEndian.AppendUint32(nil, firstRelation(known(t, "insert")).OID)
	row := func(rest ...byte) []byte { return append(append([]byte{'I'}, oid...), rest...) }
	tests := map[string]struct {
		data []byte
		want string
	}{
		"nothing": {nil, "an empty message"},
		"relation without a description": {
			[]byte{'I', 0, 0, 0, 9, 'N', 0, 0}, "relation 9, which no Relation message has described",
		},
		"tuple of another kind": {row('O', 0, 0), "tuple kind 'O', want 'N'"},
		"delete with a new row": {
			append([]byte{'D'}, append(oid, 'N', 0, 0)...), "tuple kind 'N', want 'K' or 'O'",
		},
		"fewer values than columns": {row('N', 0, 1, 'n'), "1 values for the 2 columns"},
		"more values than columns":  {row('N', 255, 255, 'n'), "65535 values for the 2 columns"},
		"value of unknown kind":     {row('N', 0, 2, 'x', 'n'), "value kind 'x'"},
		"value longer than the message": {
			row('N', 0, 2, 't', 0xff, 0xff, 0xff, 0xff), "value of 4294967295 bytes, 0 are left",
		},
		"name without end":       {[]byte{'R', 0, 0, 0, 1, 'a'}, "namespace does not end"},
		"name that is not UTF-8": {[]byte{'R', 0, 0, 0, 1, 0xff, 0}, "namespace is not UTF-8"},
		"columns that are not there": {
			[]byte{'R', 0, 0, 0, 1, 0, 'a', 0, 'd', 0xff, 0xff, 1}, "column list needs 655350 bytes, 1 are left",
		},
		"more relations than bytes for them": {
			[]byte{'T', 0, 0, 0, 2, 0, 0, 0, 0, 7}, "2 relations announced in 4 bytes",
		},
		"truncated relations missing": {
			[]byte{'T', 0xff, 0xff, 0xff, 0xff, 0}, "4294967295 relations announced in 0 bytes",
		},
		"content longer than message": {
			append([]byte{'M', 0, 0, 0, 0, 0, 0, 0, 0, 1, 'p', 0}, 0x10, 0, 0, 0, 'x'),
			"content of 268435456 bytes, 1 are left",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, known(t, "insert").Decode(new(Message), 0x1_0000_0002, test.data), test.want)
		})
	}
}

func TestDecoderErrorNamesPlace(t *testing.T) {
	err := known(t, "insert").Decode(new(Message), 0x1_0000_0002, []byte{'C', 0})
	require.EqualError(t, err, `pgoutput message 'C' at 1/2, byte 1: Commit needs 25 bytes, 1 are left`)
}

// TestDecoderSkipsUnknownTypes: PG 18 may send a StreamAbort even on protocol 1, and one shipping connector
// dropped committed rows on it.
func TestDecoderSkipsUnknownTypes(t *testing.T) {
	d := known(t, "insert")
	for _, data := range [][]byte{{'A', 0, 0, 0, 1, 0, 0, 0, 2}, {'S'}, {'~', 1, 2, 3}} {
		var m Message
		require.NoError(t, d.Decode(&m, 1, data))
		require.Equal(t, KindOther, m.Kind)
		require.Nil(t, m.Relation)
	}
}

// TestDecoderHostileLengthsAllocateNothing: a message of a few bytes must not be able to ask for much memory.
//
// Bug (stream): A short message with a false length made the decoder allocate hundreds of megabytes. Cost: out of
// memory.
func TestDecoderHostileLengthsAllocateNothing(t *testing.T) {
	d := known(t, "insert")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		_ = d.Decode(new(Message), 1, []byte{'R', 0, 0, 0, 1, 0, 'a', 0, 'd', 0xff, 0xff, 1})
		_ = d.Decode(new(Message), 1, []byte{'T', 0xff, 0xff, 0xff, 0xff, 0})
		_ = d.Decode(new(Message), 1, []byte{'M', 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff})
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
}

func TestDecoderKeepsOldRelation(t *testing.T) {
	var d Decoder
	var versions []*Relation
	for _, msg := range goldenMessages(t, "columns_change") {
		var m Message
		require.NoError(t, d.Decode(&m, msg.lsn, msg.data))
		switch m.Kind {
		case KindRelation:
			versions = append(versions, m.Relation)
		case KindInsert:
			require.Same(t, versions[len(versions)-1], m.Relation)
		}
	}
	require.GreaterOrEqual(t, len(versions), 4)
	require.Equal(t, -1, versions[0].Column("payload"))
	require.Equal(t, 1, versions[0].Column("body"))
	require.Equal(t, 1, versions[2].Column("payload"))
}

func TestDecoderValuesAliasMessage(t *testing.T) {
	d := known(t, "insert")
	data := firstOf(t, "insert", 'I')
	var m Message
	require.NoError(t, d.Decode(&m, 1, data))
	body := m.Tuple[1].Data
	require.Equal(t, "hello", string(body))
	require.Equal(t, len(body), cap(body))
	require.Same(t, &data[len(data)-5], &body[0])
}

// TestDecoderEmptyValueIsNotNull: a column's empty string and its NULL make different records.
func TestDecoderEmptyValueIsNotNull(t *testing.T) {
	d := known(t, "types")
	var m Message
	require.NoError(t, d.Decode(&m, 1, firstOf(t, "types", 'I')))
	empty, absent := m.Tuple[m.Relation.Column("empty")], m.Tuple[m.Relation.Column("absent")]
	require.Equal(t, Text, empty.Kind)
	require.NotNil(t, empty.Data)
	require.Equal(t, Value{Kind: Null}, absent)
}

func TestDecoderTimesOutsideADuration(t *testing.T) {
	for _, us := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		data := append([]byte{'B'}, make([]byte, 20)...)
		binary.BigEndian.PutUint64(data[9:], uint64(us))
		var m Message
		require.NoError(t, new(Decoder).Decode(&m, 1, data))
		require.Equal(t, us, m.Begin.CommitTime.UnixMicro()-time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	}
}

func TestDecoderNoAllocationPerRow(t *testing.T) {
	d := known(t, "types")
	row := firstOf(t, "types", 'I')
	begin, commit := firstOf(t, "types", 'B'), firstOf(t, "types", 'C')
	var m Message
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for _, data := range [][]byte{begin, row, commit} {
			if err := d.Decode(&m, 1, data); err != nil {
				t.Fatal(err)
			}
		}
	}))
	d = known(t, "logical_message")
	msg := firstOf(t, "logical_message", 'M')
	require.NoError(t, d.Decode(&m, 1, msg))
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = d.Decode(&m, 1, msg) }), "the same prefix again")
}

// FuzzDecode: whatever comes in, no panic; and what is accepted has been read to its last byte, so cutting it is an
// error.
func FuzzDecode(f *testing.F) {
	for _, name := range goldenNames(f) {
		for _, msg := range goldenMessages(f, name) {
			f.Add(msg.data)
		}
	}
	relations := map[uint32]*Relation{}
	for _, name := range goldenNames(f) {
		for oid, rel := range known(f, name).relations {
			relations[oid] = rel
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := Decoder{relations: map[uint32]*Relation{}}
		for oid, rel := range relations {
			d.relations[oid] = rel
		}
		var m Message
		var err error
		if took := testkit.Allocated(func() {
			err = d.Decode(&m, lsn.LSN(1), data)
		}); took > testkit.AllocationBound(data) {
			t.Fatalf("a message of %d bytes made the decoder allocate %d: %x", len(data), took, data)
		}
		if err != nil {
			return
		}
		if m.Kind == KindOther {
			return
		}
		if m.Tuple != nil && len(m.Tuple) != len(m.Relation.Columns) {
			t.Fatalf("%d values for %d columns", len(m.Tuple), len(m.Relation.Columns))
		}
		if err := d.Decode(&m, 1, data[:len(data)-1]); err == nil && len(data) > 1 {
			t.Fatalf("both %x and all but its last byte are messages", data)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"insert", "types"} {
		b.Run(name, func(b *testing.B) {
			d := known(b, name)
			row := firstOf(b, name, 'I')
			var m Message
			b.SetBytes(int64(len(row)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Decode(&m, 1, row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func firstRelation(d *Decoder) *Relation {
	for _, rel := range d.relations {
		return rel
	}
	return nil
}

// A TRUNCATE that names no relation is none of a foreign table.
func TestTruncateOfNothing(t *testing.T) {
	var m Message
	require.NoError(t, new(Decoder).Decode(&m, 1, []byte{'T', 0, 0, 0, 0, 0}))
	require.Equal(t, KindTruncate, m.Kind)
	require.Empty(t, m.Truncated)
}
