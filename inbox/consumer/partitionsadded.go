package consumer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// awaitOlder waits until the group has handled the records that the topic's older partitions hold now: the partitions
// with lower numbers, and all in which the group has begun. It is called with the first record of a partition in which
// the group has committed nothing: a partition that was added to the topic while the group had a lag. The relay writes
// to an added partition when everything older is acknowledged. So the ends of the other partitions, read after a record
// of this partition, are after every earlier event of its key. No two partitions wait for each other: of two partitions
// without an offset, only the partition with the higher number waits.
func (p *partition) awaitOlder(over context.Context) {
	var ends map[int]int64
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
func passed(committed, ends map[int]int64) bool {
	for partition, end := range ends {
		if committed[partition] < end {
			return false
		}
	}
	return true
}

// committedOthers returns the group's offsets in the older partitions, -1 if it has none.
func (p *partition) committedOthers(over context.Context) (map[int]int64, error) {
	others, err := p.c.partitionsOf(over, p.topic)
	if err != nil {
		return nil, err
	}
	others = slices.DeleteFunc(others, func(id int) bool { return id == p.id })
	committed := map[int]int64{}
	if len(others) == 0 {
		return committed, nil
	}
	answer, err := p.c.committed(over, map[string][]int{p.topic: others})
	if err != nil {
		return nil, err
	}
	for _, o := range answer[p.topic] {
		if o.CommittedOffset >= 0 || o.Partition < p.id {
			committed[o.Partition] = o.CommittedOffset
		}
	}
	return committed, nil
}

// committed returns what the group has committed in the partitions.
func (c *Consumer) committed(
	ctx context.Context, of map[string][]int,
) (map[string][]kafka.OffsetFetchPartition, error) {
	answer, err := answered(ctx, c.client.OffsetFetch, &kafka.OffsetFetchRequest{GroupID: c.opts.Group, Topics: of})
	if err == nil {
		err = answer.Error
	}
	if err != nil {
		return nil, err
	}
	for _, partitions := range answer.Topics {
		for _, o := range partitions {
			if o.Error != nil {
				return nil, o.Error
			}
		}
	}
	return answer.Topics, nil
}

// ends returns the ends of the partitions that hold anything.
func (p *partition) ends(over context.Context, of map[int]int64) (map[int]int64, error) {
	ends := map[int]int64{}
	if len(of) == 0 {
		return ends, nil
	}
	var ask []kafka.OffsetRequest
	seen := 0
	for partition := range of {
		ask = append(ask, kafka.FirstOffsetOf(partition), kafka.LastOffsetOf(partition))
	}
	answer, err := answered(over, p.c.client.ListOffsets, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{p.topic: ask}, IsolationLevel: kafka.ReadCommitted,
	})
	if err != nil {
		return nil, err
	}
	for _, o := range answer.Topics[p.topic] {
		if o.Error != nil {
			return nil, o.Error
		}
		if seen++; o.LastOffset > o.FirstOffset {
			ends[o.Partition] = o.LastOffset
		}
	}
	if seen != len(of) {
		return nil, errors.New("the broker's answer does not name every partition")
	}
	return ends, nil
}
