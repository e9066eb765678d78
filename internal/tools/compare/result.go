package compare

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/hashjoin"
)

// Kind is a kind of difference.
type Kind string

const (
	OnlyLeft  Kind = "only_left"
	OnlyRight Kind = "only_right"
	Topic     Kind = "topic"
	Partition Kind = "partition"
	Key       Kind = "key"
	Value     Kind = "value"
	Headers   Kind = "headers"
	Timestamp Kind = "timestamp"
	Order     Kind = "order"      // events of one key are in another order
	Repeat    Kind = "repeat"     // an event was published twice, with different content
	WithoutID Kind = "without_id" // no id header: it cannot be matched

	// No event of a pair of topics is on both sides, others' are. With Overlap, which leaves out such events one by
	// one, a topic that one side never wrote would pass otherwise.
	NothingInCommon Kind = "nothing_in_common"
)

// Place is a record's place; Topic numbers the pairs.
type Place struct {
	Side      Side
	Topic     int
	Partition int32
	Offset    int64
}

// Difference is an example of one.
type Difference struct {
	Kind   Kind
	Places []Place // one or both sides'
}

// maxExamples is how many examples of a kind are kept.
const maxExamples = 10

// Result is the verdict.
type Result struct {
	Records  [2]int64 // by side
	Matched  int64    // events that both sides have
	Repeated [2]int64 // records beyond an event's first, by side; no difference
	Outside  [2]int64 // with Overlap: events left out
	Counts   map[Kind]int64
	Examples []Difference
}

// Equal reports whether there is no difference.
func (r *Result) Equal() bool { return len(r.Counts) == 0 }

func (r *Result) note(kind Kind, places ...Place) {
	if r.Counts == nil {
		r.Counts = map[Kind]int64{}
	}
	if r.Counts[kind]++; r.Counts[kind] <= maxExamples {
		r.Examples = append(r.Examples, Difference{kind, places})
	}
}

func place(side Side, topic int, partition int32, offset int64) Place {
	return Place{side, topic, partition, offset}
}

func (e *event) place() Place { return place(e.Side, int(e.Topic), e.Partition, e.Offset) }

// pair is a matched event's place in the order of its key.
type pair struct {
	Key                     uint64
	Left, Right             int64 // offsets
	LeftTopic, RightTopic   uint16
	LeftPartition, RightPar int32
}

// log is a partition of one side.
type log struct {
	side      Side
	topic     uint16
	partition int32
}

// extent is the offsets between which a partition's events are on both sides.
type extent struct{ first, last int64 }

// Result judges all that was added.
func (c *Comparison) Result() (*Result, error) {
	pairs := hashjoin.New[pair](c.options.Dir)
	defer pairs.Close()
	extents := map[log]extent{}
	if err := c.match(pairs, extents); err != nil {
		return nil, err
	}
	if err := c.alone(extents); err != nil {
		return nil, err
	}
	if err := c.order(pairs); err != nil {
		return nil, err
	}
	c.uncompared(extents)
	return &c.result, nil
}

// uncompared notes the topics of which no event is on both sides. That no event at all is on both is for the caller to
// see.
func (c *Comparison) uncompared(extents map[log]extent) {
	if !c.options.Overlap || c.result.Matched == 0 {
		return
	}
	compared := map[int]bool{}
	for l := range extents {
		compared[int(l.topic)] = true
	}
	for _, topic := range slices.Sorted(maps.Keys(c.first)) {
		if !compared[topic] {
			c.result.note(NothingInCommon, c.first[topic])
		}
	}
}

// match compares the events that both sides have.
func (c *Comparison) match(pairs *hashjoin.Spill[pair], extents map[log]extent) error {
	return c.byID(func(l, r []event) error {
		for _, side := range [][]event{l, r} {
			if len(side) == 0 {
				continue
			}
			c.result.Repeated[side[0].Side] += int64(len(side) - 1)
			for i := range side[1:] {
				if e := &side[i+1]; e.Key != side[0].Key || e.Value != side[0].Value || e.Headers != side[0].Headers {
					c.result.note(Repeat, side[0].place(), e.place())
				}
			}
		}
		if len(l) == 0 || len(r) == 0 {
			return nil
		}
		c.result.Matched++
		for _, e := range [...]*event{&l[0], &r[0]} {
			k := log{e.Side, e.Topic, e.Partition}
			x, ok := extents[k]
			if !ok {
				x = extent{e.Offset, e.Offset}
			}
			extents[k] = extent{min(x.first, e.Offset), max(x.last, e.Offset)}
		}
		c.compare(&l[0], &r[0])
		if !l[0].KeyNotNull || !r[0].KeyNotNull {
			return nil
		}
		pairs.Add(l[0].Key>>1, pair{
			Key: l[0].Key, Left: l[0].Offset, Right: r[0].Offset, LeftTopic: l[0].Topic, RightTopic: r[0].Topic,
			LeftPartition: l[0].Partition, RightPar: r[0].Partition,
		})
		return nil
	})
}

func (c *Comparison) compare(l, r *event) {
	for _, d := range []struct {
		kind Kind
		is   bool
	}{
		{Topic, l.Topic != r.Topic},
		{Partition, l.Partition != r.Partition && !c.options.IgnorePartitions},
		{Key, l.Key != r.Key},
		{Value, l.Value != r.Value},
		{Headers, l.Headers != r.Headers},
		{Timestamp, l.Timestamp != r.Timestamp && c.options.Timestamps},
	} {
		if d.is {
			c.result.note(d.kind, l.place(), r.place())
		}
	}
}

// alone counts the events that one side lacks.
func (c *Comparison) alone(extents map[log]extent) error {
	return c.byID(func(l, r []event) error {
		if len(l) > 0 && len(r) > 0 {
			return nil
		}
		e, kind := &append(l, r...)[0], OnlyLeft
		if e.Side == Right {
			kind = OnlyRight
		}
		if c.options.Overlap {
			if x, ok := extents[log{e.Side, e.Topic, e.Partition}]; !ok || e.Offset < x.first || e.Offset > x.last {
				c.result.Outside[e.Side]++
				return nil
			}
		}
		c.result.note(kind, e.place())
		return nil
	})
}

// order notes events of one key whose order, by first appearance, differs between left and right.
func (c *Comparison) order(pairs *hashjoin.Spill[pair]) error {
	return pairs.Each(func(all []pair) error {
		slices.SortFunc(all, func(a, b pair) int {
			return cmp.Or(cmp.Compare(a.LeftTopic, b.LeftTopic), cmp.Compare(a.Key, b.Key),
				cmp.Compare(a.LeftPartition, b.LeftPartition), cmp.Compare(a.Left, b.Left))
		})
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if a.LeftTopic == b.LeftTopic && a.Key == b.Key && a.LeftPartition == b.LeftPartition &&
				a.RightTopic == b.RightTopic && a.RightPar == b.RightPar && a.Right > b.Right {
				c.result.note(Order, place(Left, int(b.LeftTopic), b.LeftPartition, b.Left),
					place(Right, int(b.RightTopic), b.RightPar, b.Right))
			}
		}
		return nil
	})
}

// byID calls f with the records of each event; l and r are in the order in which the records came.
func (c *Comparison) byID(f func(l, r []event) error) error {
	return c.events.ByID(func(e *event) [2]uint64 { return e.ID }, func(same []event) error {
		slices.SortStableFunc(same, func(a, b event) int { return cmp.Compare(a.Side, b.Side) })
		left := 0
		for left < len(same) && same[left].Side == Left {
			left++
		}
		return f(same[:left:left], same[left:])
	})
}
