package oracle

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Check compares the records of Kafka with the committed rows. truth is in commit order, then in the order within the
// transaction; partitions says how many each topic has. It reports what it finds; what of it a test allows is the
// test's affair (Report.Err).
func Check(truth []Row, records []Record, partitions map[string]int32) *Report {
	return compareLogs(truth, records, partitions, promise{positions: (*Row).Position, partitions: true})
}

// CheckKeys is Check for a relay that only promises the order of each key, and whose records need not carry a position.
func CheckKeys(truth []Row, records []Record, partitions map[string]int32) *Report {
	return compareLogs(truth, records, partitions, promise{})
}

// CheckParts is Check for several relays that share the rows by key. In a partition, the rows of one relay may come at
// any point among the rows of another. A position counts only the rows of its relay within the transaction.
func CheckParts(truth []Row, records []Record, partitions map[string]int32) *Report {
	return compareLogs(truth, records, partitions, promise{positions: (*Row).commitPosition})
}

// promise is what a relay promises beyond the order of each key.
type promise struct {
	positions  func(*Row) string // what the position of a row's record begins with; nil: none is promised
	partitions bool              // partitions are in the order of the log
}

func compareLogs(truth []Row, records []Record, partitions map[string]int32, p promise) *Report {
	c := &check{
		promise: p, rep: &Report{Rows: len(truth), Records: len(records)}, truth: truth,
		byID: make(map[string]int, len(truth)),
	}
	for i := range truth {
		c.byID[truth[i].ID] = i
	}
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Offset, b.Offset))
	})
	c.first = make([]int, len(truth))
	for i := range records {
		c.record(i+1, &records[i], partitions)
	}
	for i := range truth {
		if c.first[i] == 0 {
			c.rep.add(Lost, "row %s key %q of transaction %d (%s)", truth[i].ID, truth[i].Key, truth[i].XID,
				truth[i].Position())
		}
	}
	for begin := 0; p.partitions && begin < len(records); {
		end := begin
		for end < len(records) && records[end].Topic == records[begin].Topic &&
			records[end].Partition == records[begin].Partition {
			end++
		}
		c.partition(records[begin:end])
		begin = end
	}
	c.keys()
	return c.rep
}

type check struct {
	promise
	rep   *Report
	truth []Row
	byID  map[string]int // index into truth
	first []int          // per row: 1 + index into the sorted records of its first appearance, 0: none
}

// record compares one record with its row.
func (c *check) record(n int, r *Record, partitions map[string]int32) {
	at := fmt.Sprintf("%s/%d offset %d", r.Topic, r.Partition, r.Offset)
	i, ok := c.byID[r.ID]
	if !ok {
		c.rep.add(Phantom, "%s: id %q key %q was never committed", at, r.ID, r.Key)
		return
	}
	row := &c.truth[i]
	if c.first[i] == 0 {
		c.first[i] = n
	} else {
		c.rep.Duplicates++
	}
	switch {
	case r.Topic != row.Topic:
		c.rep.add(Misplaced, "%s: row %s belongs to topic %s", at, r.ID, row.Topic)
	case partitions[r.Topic] > 0 && r.Partition != JavaPartition(r.Key, partitions[r.Topic]):
		c.rep.add(Misplaced, "%s: key %q belongs to partition %d", at, r.Key, JavaPartition(r.Key, partitions[r.Topic]))
	}
	switch {
	case string(r.Key) != row.Key:
		c.rep.add(Corrupted, "%s: row %s has key %q, not %q", at, r.ID, row.Key, r.Key)
	case !bytes.Equal(r.Value, row.Value) || (r.Value == nil) != (row.Value == nil):
		c.rep.add(Corrupted, "%s: the value of row %s differs: %s, not %s", at, r.ID, brief(row.Value), brief(r.Value))
	case c.positions != nil && row.Commit != 0 && !strings.HasPrefix(r.Position, c.positions(row)):
		c.rep.add(Corrupted, "%s: row %s has position %s, not %q", at, r.ID, c.positions(row), r.Position)
	}
}

// partition follows one partition's records. They must be the rows that belong there, in order; a repeat steps back
// once and then goes on row by row past the furthest one, as a relay does that resumes before the end of what it knows
// to be confirmed.
func (c *check) partition(records []Record) {
	// ordinal of each row among the rows of this partition that arrived at all; lost ones are reported elsewhere
	var rows []int
	seen := map[int]bool{}
	for i := range records {
		if row, ok := c.byID[records[i].ID]; ok && !seen[row] {
			seen[row] = true
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	ordinal := make(map[int]int, len(rows))
	for o, row := range rows {
		ordinal[row] = o
	}
	previous, furthest := -1, -1
	var last *Record
	for i := range records {
		r := &records[i]
		row, ok := c.byID[r.ID]
		if !ok {
			continue
		}
		o := ordinal[row]
		switch {
		case o == previous+1: // the next one
		case o <= previous:
			c.rep.Rewinds++
		case o <= furthest+1 && previous < furthest:
			c.rep.add(Stale, "%s/%d offset %d: after a step back to row %s it jumps ahead to %s instead of repeating "+
				"what lies between", r.Topic, r.Partition, r.Offset, last.ID, r.ID)
		default:
			c.rep.add(Shuffled, "%s/%d offset %d: row %s (%s) comes before rows that were committed earlier", r.Topic,
				r.Partition, r.Offset, r.ID, c.truth[row].Position())
		}
		previous, furthest, last = o, max(furthest, o), r
	}
	if previous < furthest {
		c.rep.add(Stale, "%s/%d ends at offset %d with row %s, an old one: newer rows lie before it", last.Topic,
			last.Partition, last.Offset, last.ID)
	}
}

// keys compares, key by key, the order of first appearances with the commit order.
func (c *check) keys() {
	type key struct{ topic, key string }
	furthest := map[key]int{} // the truth's index of the row with the latest first appearance so far
	for i := range c.truth {  // in commit order
		if c.first[i] == 0 {
			continue
		}
		k := key{c.truth[i].Topic, c.truth[i].Key}
		before, ok := furthest[k]
		if ok && c.first[before] > c.first[i] {
			c.rep.add(Inverted, "key %q: row %s (%s) appeared before row %s (%s), which was committed earlier", k.key,
				c.truth[i].ID, c.truth[i].Position(), c.truth[before].ID, c.truth[before].Position())
			continue
		}
		furthest[k] = i
	}
}

func brief(b []byte) string {
	if b == nil {
		return "NULL"
	}
	if len(b) > 60 {
		return fmt.Sprintf("%q... (%d bytes)", b[:60], len(b))
	}
	return fmt.Sprintf("%q", b)
}
