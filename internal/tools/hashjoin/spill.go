// Package hashjoin brings together the entries of sets that are too large for memory: they are spread over files by a
// hash, and one file after the other is looked at in memory (a Grace hash join). Sets that have an order, as queries of
// Postgres give them, are merged instead: see internal/tools/audit.
package hashjoin

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"os"
	"slices"
)

const (
	// buckets is how many files the entries are spread over: 100 million events make files of some 100 MB.
	buckets = 64
	// inMemory is how many bytes are kept before any file is written: what is smaller needs no disk.
	inMemory = 8 << 20
)

// Spill spreads entries, of types of fixed size, over files by a hash. It is for one goroutine.
type Spill[T any] struct {
	dir     string
	buckets [buckets]bucket
	held    int // bytes in memory
	limit   int
}

type bucket struct {
	file *os.File // older entries; nil: none
	size int64    // of the file
	held []byte
}

// New returns a Spill whose files are in a directory; empty: the system's for temporary files. Where no file can be
// made, as in a container that may not write, and from a full disk on, entries stay in memory.
func New[T any](dir string) *Spill[T] { return &Spill[T]{dir: dir, limit: inMemory} }

// Close removes the files.
func (s *Spill[T]) Close() {
	for i := range s.buckets {
		if f := s.buckets[i].file; f != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
}

// Add takes an entry. Entries that belong together need the same hash.
func (s *Spill[T]) Add(hash uint64, entry T) {
	b := &s.buckets[hash%buckets]
	before := len(b.held)
	b.held, _ = binary.Append(b.held, binary.LittleEndian, &entry) // fails only for a type without a fixed size
	if s.held += len(b.held) - before; s.held >= s.limit {
		s.write()
	}
}

// write empties the memory.
func (s *Spill[T]) write() {
	for i := range s.buckets {
		b := &s.buckets[i]
		if b.file == nil && !b.create(s.dir) || !b.write() {
			s.limit = math.MaxInt
			return
		}
	}
	s.held = 0
}

// write appends to the file. One that does not take all is as long as it was.
func (b *bucket) write() bool {
	if _, err := b.file.WriteAt(b.held, b.size); err != nil {
		return false
	}
	b.size += int64(len(b.held))
	b.held = b.held[:0]
	return true
}

func (b *bucket) create(dir string) bool {
	file, err := os.CreateTemp(dir, "cdc-outbox-*")
	if err != nil {
		return false
	}
	b.file = file
	_ = os.Remove(file.Name()) // a killed process leaves nothing; Windows refuses, and Close does it there
	return true
}

// Each calls f with the entries of one bucket after the other, in the order in which they were added.
func (s *Spill[T]) Each(f func([]T) error) error {
	var zero T
	size := binary.Size(&zero)
	for i := range s.buckets {
		raw, err := s.buckets[i].read()
		if err != nil {
			return err
		}
		entries := make([]T, len(raw)/size)
		if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, entries); err != nil {
			return err
		}
		if err := f(entries); err != nil {
			return err
		}
	}
	return nil
}

// ByID calls f with the entries of each id, in the order in which they were added. Its hash is the id's first half.
func (s *Spill[T]) ByID(id func(*T) [2]uint64, f func([]T) error) error {
	return s.Each(func(all []T) error {
		slices.SortStableFunc(all, func(a, b T) int {
			x, y := id(&a), id(&b)
			return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
		})
		for len(all) > 0 {
			n, first := 1, id(&all[0])
			for n < len(all) && id(&all[n]) == first {
				n++
			}
			if err := f(all[:n:n]); err != nil {
				return err
			}
			all = all[n:]
		}
		return nil
	})
}

func (b *bucket) read() ([]byte, error) {
	if b.file == nil {
		return b.held, nil
	}
	raw, err := io.ReadAll(io.NewSectionReader(b.file, 0, b.size))
	return append(raw, b.held...), err
}
