package hashjoin

import (
	"encoding/binary"
	"math/bits"
)

// Difference compares a left set of ids with a right one, by their hashes. The left set is complete before the right
// one begins, which may be many times larger: most of its ids that are not on the left are not kept. It is for one
// goroutine.
type Difference struct {
	entries *Spill[entry]
	left    uint64
	sieve   sieve // nil until the right set begins
}

// ID is a hash of an id.
type ID [16]byte

func (id *ID) halves() [2]uint64 {
	return [2]uint64{binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])}
}

type entry struct {
	ID    [2]uint64
	Place uint16
	Right bool
}

// NewDifference returns a Difference whose files, 19 bytes an entry, are in a directory, as New has it.
func NewDifference(dir string) *Difference { return &Difference{entries: New[entry](dir)} }

// Close removes the files.
func (d *Difference) Close() { d.entries.Close() }

// Left takes an id of the left set, and the number of the place where it is.
func (d *Difference) Left(id ID, place uint16) {
	d.left++
	h := id.halves()
	d.entries.Add(h[0], entry{ID: h, Place: place})
}

// Right takes an id of the right set.
func (d *Difference) Right(id ID) error {
	if d.sieve == nil {
		if err := d.fillSieve(); err != nil {
			return err
		}
	}
	h := id.halves()
	if d.sieve.has(h[1]) {
		d.entries.Add(h[0], entry{ID: h, Right: true})
	}
	return nil
}

// Each calls f with each id of the left set: its places in the order in which they were taken, and whether the right
// set has it.
func (d *Difference) Each(f func(id ID, places []uint16, right bool)) error {
	var places []uint16
	return d.entries.ByID(func(e *entry) [2]uint64 { return e.ID }, func(same []entry) error {
		places = places[:0]
		right := false
		for _, e := range same {
			if e.Right {
				right = true
			} else {
				places = append(places, e.Place)
			}
		}
		if len(places) > 0 {
			var id ID
			binary.LittleEndian.PutUint64(id[:8], same[0].ID[0])
			binary.LittleEndian.PutUint64(id[8:], same[0].ID[1])
			f(id, places, right)
		}
		return nil
	})
}

func (d *Difference) fillSieve() error {
	d.sieve = newSieve(d.left)
	return d.entries.Each(func(all []entry) error {
		for i := range all {
			d.sieve.add(all[i].ID[1])
		}
		return nil
	})
}

// sieve holds back nearly all hashes that are not of its set: a Bloom filter with one bit a hash. With 16 to 32 bits
// for each of the set, it lets 3 to 6 % of the others through.
type sieve []uint64

func newSieve(n uint64) sieve {
	return make(sieve, 1<<bits.Len64(n*16/64))
}

func (s sieve) bit(hash uint64) (word *uint64, mask uint64) {
	return &s[hash>>6&uint64(len(s)-1)], 1 << (hash & 63)
}

func (s sieve) add(hash uint64) {
	word, mask := s.bit(hash)
	*word |= mask
}

func (s sieve) has(hash uint64) bool {
	word, mask := s.bit(hash)
	return *word&mask != 0
}
