package pgoutput

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// cut is the short form of a message that comes piece by piece.
func cut(message []byte, piece int) []byte {
	var c Cutter
	c.Reset()
	for rest := message; len(rest) > 0; {
		n := min(piece, len(rest))
		c.Write(rest[:n])
		rest = rest[n:]
	}
	return c.Short()
}

// long is a value of n bytes in a tuple.
func long(n int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{'t'}, uint32(n)), bytes.Repeat([]byte{'a'}, n)...)
}

// Messages without long values are their own short form, except for the content of logical messages.
func TestCutterKeepsShortValues(t *testing.T) {
	for _, name := range goldenNames(t) {
		for _, msg := range goldenMessages(t, name) {
			if msg.data[0] == 'M' {
				continue
			}
			for _, piece := range []int{1, 3, len(msg.data)} {
				require.Equal(t, msg.data, cut(msg.data, piece), "%s, pieces of %d bytes", name, piece)
			}
		}
	}
}

func TestCutterLeavesOutLongValues(t *testing.T) {
	d := Decoder{Cut: true}
	var m Message
	require.NoError(t, d.Decode(&m, 1, relationMessage(7, "outbox", 3)))
	row := func(values ...[]byte) []byte { return bytes.Join(append([][]byte{{0, 3}}, values...), nil) }
	id, none := []byte("t\x00\x00\x00\x02e1"), []byte{'n'}
	want := Tuple{
		{Kind: Text, Data: []byte("e1")}, {Kind: Cut, Size: 200_000}, {Kind: Cut, Size: maxValue + 1},
	}
	some, null := row(id, long(200_000), long(maxValue+1)), row(none, none, none)
	message := func(parts ...any) []byte { return fmt.Appendf(nil, strings.Repeat("%s", len(parts)), parts...) }
	for name, message := range map[string][]byte{
		"insert":               message("I\x00\x00\x00\x07N", some),
		"update":               message("U\x00\x00\x00\x07N", some),
		"update with a key":    message("U\x00\x00\x00\x07K", row(id, none, none), "N", some),
		"update with all":      message("U\x00\x00\x00\x07O", some, "N", some),
		"update with all null": message("U\x00\x00\x00\x07O", null, "N", some),
	} {
		for _, piece := range []int{1, 1000, len(message)} {
			short := cut(message, piece)
			require.Less(t, len(short), 100, name)
			require.NoError(t, d.Decode(&m, 1, short), name)
			require.Equal(t, want, m.Tuple, name)
		}
		require.Error(t, d.Decode(&m, 1, cut(message[:len(message)-1], 1000)), "%s, and its last byte is missing", name)
		require.Error(t, d.Decode(&m, 1, cut(append(bytes.Clone(message), 'n'), 1000)), "%s, and a byte more", name)
	}
	require.NoError(t, d.Decode(&m, 1, cut(message("D\x00\x00\x00\x07O", some), 1000)))
	require.Equal(t, KindDelete, m.Kind)

	strict := Decoder{relations: d.relations}
	forged := message("I\x00\x00\x00\x07N", row(id, none, []byte("x\x00\x00\x00\x01")))
	require.ErrorContains(t, strict.Decode(&m, 1, forged), "value kind 'x'", "no server may leave out a value")
}

// Many values that are short each are long together.
func TestCutterBoundsTheSum(t *testing.T) {
	d := Decoder{Cut: true}
	var m Message
	require.NoError(t, d.Decode(&m, 1, relationMessage(7, "outbox", 64)))
	message := []byte("I\x00\x00\x00\x07N\x00\x40")
	for range 64 {
		message = append(message, long(maxValue)...)
	}
	var short []byte
	took := testkit.Allocated(func() { short = cut(message, len(message)) })
	require.Less(t, took, uint64(5<<20))
	require.NoError(t, d.Decode(&m, 1, short))
	require.Equal(t, Text, m.Tuple[0].Kind)
	require.Equal(t, Value{Kind: Cut, Size: maxValue}, m.Tuple[63])
}

func TestCutterLogicalMessages(t *testing.T) {
	d := Decoder{Cut: true}
	var m Message
	head := append([]byte{'M', 1}, make([]byte, 8)...)
	content := long(300_000)[1:]
	require.NoError(t, d.Decode(&m, 1, cut(append(append(bytes.Clone(head), "outbox\x00"...), content...), 1000)))
	require.Equal(t, LogicalMessage{Transactional: true, Prefix: "outbox", Cut: 300_000}, m.Logical)

	// A prefix may have any length, too. Such a message is of another program.
	strange := append(append(bytes.Clone(head), bytes.Repeat([]byte{'p'}, 200_000)...), 0)
	short := cut(append(strange, content...), 1000)
	require.Less(t, len(short), 2*maxPrefix)
	require.NoError(t, d.Decode(&m, 1, short))
	require.Len(t, m.Logical.Prefix, maxPrefix-len(head))

	plain := Decoder{}
	require.NoError(t, plain.Decode(&m, 1, append(append(head, "outbox\x00"...), 0, 0, 0, 1, '1')))
	require.Zero(t, m.Logical.Cut, "of the message before")
}

// FuzzCutter: whatever comes in, in whatever pieces, the short form is the same, is a message if the whole is one, and
// has the values that it keeps.
func FuzzCutter(f *testing.F) {
	for _, name := range goldenNames(f) {
		for _, msg := range goldenMessages(f, name) {
			f.Add(msg.data, 7)
		}
	}
	f.Add(append([]byte("I\x00\x00\x00\x07N\x00\x01"), long(maxValue+1)...), 100)
	relations := map[uint32]*Relation{7: {Columns: make([]Column, 1)}}
	for _, name := range goldenNames(f) {
		for oid, rel := range known(f, name).relations {
			relations[oid] = rel
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		if len(data) == 0 || len(data) > maxShort {
			return
		}
		short := bytes.Clone(cut(data, max(1, piece)))
		require.Equal(t, short, cut(data, len(data)))
		var whole, cut Message
		d := Decoder{relations: relations}
		errWhole := d.Decode(&whole, 1, data)
		d = Decoder{relations: relations, Cut: true}
		errCut := d.Decode(&cut, 1, short)
		require.Equal(t, errWhole == nil, errCut == nil, "%v: %v", errWhole, errCut)
		if errWhole != nil || whole.Tuple == nil {
			return
		}
		require.Equal(t, whole.Kind, cut.Kind)
		require.Len(t, cut.Tuple, len(whole.Tuple))
		for i, v := range cut.Tuple {
			if v.Kind == Cut {
				require.EqualValues(t, len(whole.Tuple[i].Data), v.Size)
			} else {
				require.Equal(t, whole.Tuple[i], v)
			}
		}
	})
}
