package hashjoin

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func idOf(n uint64) ID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
	return ID(sum[:16])
}

// In memory, and with files: the left set has 0 to n-1, some of them twice, the right set every third one and very many
// others.
func TestDifference(t *testing.T) {
	const n, others = 2000, 20_000
	for _, limit := range []int{inMemory, 1000} {
		d := NewDifference(t.TempDir())
		d.entries.limit = limit
		for i := range uint64(n) {
			d.Left(idOf(i), uint16(i%7))
			if i%10 == 0 {
				d.Left(idOf(i), uint16(i%7+100))
			}
		}
		for i := range uint64(n + others) {
			if i%3 == 0 || i >= n {
				require.NoError(t, d.Right(idOf(i)))
			}
		}
		places, right := map[ID][]uint16{}, map[ID]bool{}
		require.NoError(t, d.Each(func(id ID, at []uint16, is bool) {
			places[id], right[id] = slices.Clone(at), is
		}))
		require.Len(t, places, n)
		for i := range uint64(n) {
			want := []uint16{uint16(i % 7)}
			if i%10 == 0 {
				want = append(want, uint16(i%7+100))
			}
			require.Equal(t, want, places[idOf(i)], i)
			require.Equal(t, i%3 == 0, right[idOf(i)], i)
		}
		kept := 0
		require.NoError(t, d.entries.Each(func(all []entry) error {
			kept += len(all)
			return nil
		}))
		require.Less(t, kept, n*11/10+n/3+others/8, "what cannot be on the left is not kept")
		d.Close()
	}
}

func TestEmptySets(t *testing.T) {
	d := NewDifference(t.TempDir())
	defer d.Close()
	require.NoError(t, d.Right(idOf(1)))
	require.NoError(t, d.Each(func(ID, []uint16, bool) { t.Error("the left set is empty") }))
}

// What is small leaves the disk alone, a process that is killed leaves no file, and one that cannot make files needs
// none.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	s := New[uint64](dir)
	s.Add(1, 1)
	require.Nil(t, s.buckets[1].file)
	s.limit = 1
	s.Add(1, 2)
	require.NotNil(t, s.buckets[1].file)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
	s.limit = inMemory
	s.Add(1, 3)
	var all []uint64
	require.NoError(t, s.Each(func(some []uint64) error {
		all = append(all, some...)
		return nil
	}))
	require.Equal(t, []uint64{1, 2, 3}, all)
	s.Close()

	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err == nil { // from a full disk on, too
		s = New[uint64](dir)
		s.buckets[1].file, s.limit = full, 1
		s.Add(1, 4)
		s.Add(1, 5)
		all = nil
		require.NoError(t, s.Each(func(some []uint64) error {
			all = append(all, some...)
			return nil
		}))
		require.Equal(t, []uint64{4, 5}, all)
		require.NoError(t, full.Close())
	}

	s = New[uint64](dir + "/missing")
	s.limit = 1
	for i := range uint64(100) {
		s.Add(i, i)
	}
	n := 0
	require.NoError(t, s.Each(func(some []uint64) error {
		n += len(some)
		return nil
	}))
	require.Equal(t, 100, n, "all is in memory")
}
