// Package compare reports whether two sets of topics hold the same events: it matches events by their id headers and
// compares key, value, headers, partition and order per key. Memory stays small, whatever the topics' size: compare
// keeps only hashes and the place of each record, in files by hash, and judges one file after the other.
package compare

import (
	"hash/maphash"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/hashjoin"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Side is one of the two sets.
type Side uint8

const (
	Left Side = iota
	Right
)

// Options choose the differences that count.
type Options struct {
	Dir string // for temporary files, some 70 bytes a record; empty: the system's

	IgnoreHeaders    []string
	IgnorePartitions bool
	Timestamps       bool // compare them; Debezium's are of another kind

	// Overlap leaves out the events before the first and after the last event that both sides have, partition by
	// partition: one side began earlier, or has not arrived yet.
	Overlap bool
}

// Record is a record of a topic; Topic numbers the pairs of topics that belong together.
type Record struct {
	Topic      int
	Partition  int32
	Offset     int64
	Timestamp  int64
	Key, Value []byte // nil: null
	Headers    []router.Header
}

// Comparison collects records of both sides, in the order of each partition. Then Result judges.
type Comparison struct {
	options Options
	seeds   [2]maphash.Seed
	events  *hashjoin.Spill[event]
	first   map[int]Place // record of each topic, on either side
	result  Result
}

// New begins a comparison.
func New(o Options) *Comparison {
	return &Comparison{
		options: o, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		events: hashjoin.New[event](o.Dir),
		first:  map[int]Place{},
	}
}

// Close closes the files.
func (c *Comparison) Close() { c.events.Close() }

// event is the part of a record that is kept.
type event struct {
	ID         [2]uint64 // of the id header
	Key        uint64
	Value      uint64
	Headers    uint64
	Timestamp  int64
	Offset     int64
	Partition  int32
	Topic      uint16
	Side       Side
	KeyNotNull bool
}

// Add takes a record of one side.
func (c *Comparison) Add(side Side, r *Record) {
	c.result.Records[side]++
	if _, ok := c.first[r.Topic]; !ok {
		c.first[r.Topic] = place(side, r.Topic, r.Partition, r.Offset)
	}
	id, ok := c.id(r.Headers)
	if !ok {
		c.result.note(WithoutID, place(side, r.Topic, r.Partition, r.Offset))
		return
	}
	c.events.Add(id[0], event{
		ID: id, Key: c.bytes(r.Key), Value: c.bytes(r.Value), Headers: c.headers(r.Headers), Timestamp: r.Timestamp,
		Offset: r.Offset, Partition: r.Partition, Topic: uint16(r.Topic), Side: side, KeyNotNull: r.Key != nil,
	})
}

func (c *Comparison) id(headers []router.Header) (id [2]uint64, ok bool) {
	for i := range headers {
		if headers[i].Key == "id" && headers[i].Value != nil {
			return [2]uint64{maphash.Bytes(c.seeds[0], headers[i].Value), maphash.Bytes(c.seeds[1], headers[i].Value)},
				true
		}
	}
	return id, false
}

// bytes hashes a byte string; null is not the empty one.
func (c *Comparison) bytes(b []byte) uint64 {
	if b == nil {
		return 0
	}
	return maphash.Bytes(c.seeds[0], b) | 1
}

// headers hashes names, values and their order.
func (c *Comparison) headers(headers []router.Header) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seeds[0])
	for i := range headers {
		if slices.Contains(c.options.IgnoreHeaders, headers[i].Key) {
			continue
		}
		maphash.WriteComparable(&h, headers[i].Key)
		maphash.WriteComparable(&h, c.bytes(headers[i].Value))
	}
	return h.Sum64()
}
