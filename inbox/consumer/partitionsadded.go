package consumer

import (
	"context"
	"maps"
	"slices"
	"time"
)

// awaitOlder waits until the group has handled the records that the topic's older partitions hold now: the partitions
// with lower numbers, and all in which the group has begun. It is called with the first record of a partition in which
// the group has committed nothing: a partition that was added to the topic while the group had a lag. The relay writes
// to an added partition when everything older is acknowledged. So the ends of the other partitions, read after a record
// of this partition, are after every earlier event of its key. No two partitions wait for each other: of two partitions
// without an offset, only the partition with the higher number waits.
func (p *partition) awaitOlder(over context.Context) {
	var ends map[topicPartition]int64
	for said := false; over.Err() == nil; {
		committed, err := p.committedOthers(over)
		if err == nil && ends == nil {
			ends, err = p.ends(over, committed)
		}
		if err == nil && passed(committed, ends) {
			return
		}
		switch {
		case over.Err() != nil:
			return
		case err != nil:
			p.c.opts.Logger.Warn("asking how far the group is in the topic's other partitions failed",
				"topic", p.topic, "partition", p.id, "error", err.Error())
		case !said:
			said = true
			p.c.opts.Logger.Warn("the partition is new to the group, and waits until the older events are handled",
				"topic", p.topic, "partition", p.id)
		}
		sleep(over, growPause)
	}
}

const growPause = 500 * time.Millisecond

// passed reports whether the group has reached the ends.
func passed(committed, ends map[topicPartition]int64) bool {
	for partition, end := range ends {
		if committed[partition] < end {
			return false
		}
	}
	return true
}

// committedOthers returns the group's offsets in the older partitions, -1 if it has none.
func (p *partition) committedOthers(over context.Context) (map[topicPartition]int64, error) {
	info, err := p.c.cluster.topic(over, p.topic)
	if err != nil {
		return nil, err
	}
	others := partitionsOf(p.topic, slices.DeleteFunc(info.partitions(), func(id int) bool { return id == p.id }))
	found, err := p.c.cluster.stored(over, p.c.opts.Group, others)
	if err != nil {
		return nil, err
	}
	committed := map[topicPartition]int64{}
	for tp, s := range found {
		if s.next >= 0 || tp.id < p.id {
			committed[tp] = s.next
		}
	}
	return committed, nil
}

// ends returns the ends of the partitions that hold anything.
func (p *partition) ends(over context.Context, of map[topicPartition]int64) (map[topicPartition]int64, error) {
	partitions := slices.Collect(maps.Keys(of))
	firsts, ends, err := p.c.cluster.bounds(over, partitions, committed)
	maps.DeleteFunc(ends, func(tp topicPartition, end int64) bool { return end <= firsts[tp] })
	return ends, err
}
