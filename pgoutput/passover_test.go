package pgoutput

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// relationMessage describes a table of n columns.
func relationMessage(oid uint32, name string, n int) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'R'}, oid)
	b = append(b, "public\x00"+name+"\x00d"...)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	for i := range n {
		b = append(append(b, 0), fmt.Sprintf("a_column_with_a_name_%d\x00", i)...)
		b = append(b, 0, 0, 0, 25, 255, 255, 255, 255)
	}
	return b
}

// TestTablesThatArePassedOverCostLittle: with a publication FOR ALL TABLES, tables that come and go are sent for as
// long as the stream lives.
//
// Bug (stream): All columns of every table of a publication FOR ALL TABLES were kept, and each table was logged. Cost:
// memory that grew with tables that come and go.
func TestTablesThatArePassedOverCostLittle(t *testing.T) {
	const tables = 50_000
	kept := func(passOver bool) uint64 {
		var before, after runtime.MemStats
		d := Decoder{PassOver: func(*Relation) bool { return passOver }}
		var m Message
		described := relationMessage(0, "some_table", 20)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for oid := range uint32(tables) {
			binary.BigEndian.PutUint32(described[1:], oid)
			require.NoError(t, d.Decode(&m, 1, described))
		}
		m = Message{}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(&d)
		return (after.HeapAlloc - before.HeapAlloc) / tables
	}
	each := kept(true)
	t.Logf("%d bytes for each table that is passed over, %d for each other", each, kept(false))
	require.Less(t, each, uint64(64))
}

func TestRowsOfPassedOverTables(t *testing.T) {
	d := Decoder{PassOver: func(rel *Relation) bool { return rel.Name == "other" }}
	var m Message
	decode := func(b []byte) Kind {
		require.NoError(t, d.Decode(&m, 1, b))
		return m.Kind
	}
	insert := []byte{'I', 0, 0, 0, 7, 'N', 0, 1, 'n'}
	truncate := []byte{'T', 0, 0, 0, 1, 0, 0, 0, 0, 7}
	require.Equal(t, KindRelation, decode(relationMessage(7, "other", 1)))
	require.Equal(t, KindPassedOver, decode(insert))
	require.Nil(t, m.Relation)
	require.Equal(t, KindPassedOver, decode(append([]byte{'U'}, insert[1:]...)))
	require.Equal(t, KindPassedOver, decode(truncate))

	require.Equal(t, KindRelation, decode(relationMessage(7, "outbox", 1)), "the table was renamed")
	require.Equal(t, KindInsert, decode(insert))
	require.Equal(t, "outbox", m.Relation.Name)
	require.Equal(t, KindTruncate, decode(truncate))
	require.Equal(t, KindRelation, decode(relationMessage(7, "other", 1)))
	require.Equal(t, KindPassedOver, decode(insert))
}
