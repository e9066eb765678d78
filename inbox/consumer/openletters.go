package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Headers of a mark: a record in which cdc-outbox dead-letter notes the state of a letter.
const (
	markHeader    = "cdc-outbox-retry" // begun, published, withdrawn or dismissed
	markGroup     = "cdc-outbox-slot"
	markPosition  = "position" // see origin
	markPublished = "published"
	markDismissed = "dismissed"
)

// origin identifies a letter within its group: where its record was. dead-letter shows it as the letter's position.
func origin(topic, partition, offset string) string { return topic + "/" + partition + "@" + offset }

// openLetters follows one dead-letter topic and knows which letters of the group are open: neither published again nor
// dismissed. Package internal/deadletter has the same rules.
type openLetters struct {
	group   string
	open    map[string]place // by origin
	settled map[string]place // the mark
	next    map[int]int64
}

// place is the position of a letter in the dead-letter topic, and the topic of its record.
type place struct {
	partition int
	offset    int64
	source    string
}

func newOpenLetters(group string) *openLetters {
	return &openLetters{group: group, open: map[string]place{}, settled: map[string]place{}, next: map[int]int64{}}
}

// add takes a record of the dead-letter topic.
func (l *openLetters) add(m Message) {
	if mark := first(m.Headers, markHeader); mark != "" {
		if at := first(m.Headers, markPosition); first(m.Headers, markGroup) == l.group &&
			(mark == markPublished || mark == markDismissed) {
			l.settled[at] = place{partition: m.Partition, offset: m.Offset}
			delete(l.open, at)
		}
		return
	}
	source := first(m.Headers, HeaderTopic)
	if source == "" || first(m.Headers, HeaderGroup) != l.group {
		return
	}
	at := origin(source, first(m.Headers, HeaderPartition), first(m.Headers, HeaderOffset))
	if mark, ok := l.settled[at]; !ok || first(m.Headers, HeaderHold) != "" && mark.before(m) {
		delete(l.settled, at)
		l.open[at] = place{partition: m.Partition, offset: m.Offset, source: source}
	}
}

// before reports whether the record is known to be later than the one at the place.
func (p place) before(m Message) bool { return p.partition == m.Partition && p.offset < m.Offset }

// expire forgets the letters and the marks that retention has deleted from the topic.
func (l *openLetters) expire(partition int, start int64) {
	gone := func(_ string, p place) bool { return p.partition == partition && p.offset < start }
	maps.DeleteFunc(l.open, gone)
	maps.DeleteFunc(l.settled, gone)
}

// counts returns how many letters are open, by the topic of their records.
func (l *openLetters) counts() map[string]int {
	counts := map[string]int{}
	for _, p := range l.open {
		counts[p.source]++
	}
	return counts
}

// countLetters shows how many letters of the group are open, until ctx ends. It does nothing without metrics.
func (c *Consumer) countLetters(ctx context.Context) {
	if c.opts.Metrics == nil {
		return
	}
	known := map[string]*openLetters{}
	var before string
	short := map[string]bool{} // as of the last time: a new leader knows more by the next
	for ctx.Err() == nil {
		topics, counts := slices.Concat(c.opts.Topics, c.members.existing()), map[string]int{}
		for _, topic := range topics {
			if to := c.opts.DeadLetterTopic(topic); known[to] == nil {
				known[to] = newOpenLetters(c.opts.Group)
			}
		}
		for _, topic := range slices.Sorted(maps.Keys(known)) {
			err := c.follow(ctx, topic, known[topic], committed)
			if errors.Is(err, errShorter) && short[topic] {
				known[topic] = newOpenLetters(c.opts.Group)
				err = c.follow(ctx, topic, known[topic], committed)
			}
			short[topic] = errors.Is(err, errShorter)
			for source, n := range known[topic].counts() {
				counts[source] += n
			}
			if ctx.Err() == nil && err != nil && err.Error() != before {
				before = err.Error()
				c.opts.Logger.Warn("counting the open dead letters failed", "topic", topic, "error", before)
			}
		}
		for _, topic := range topics {
			c.opts.Metrics.OpenLetters(c.opts.Group, topic, counts[topic])
		}
		sleep(ctx, lookEvery)
	}
}

func (l *openLetters) offsets() map[int]int64 { return l.next }

// follower takes the records of a dead-letter topic.
type follower interface {
	add(m Message)
	expire(partition int, start int64) // retention has deleted the records before start
	offsets() map[int]int64            // next offsets, by partition
}

// errShorter reports that the topic ends before the offset up to which it was read: it was created again, or a new
// leader does not know yet how far it is committed.
var errShorter = errors.New("the topic ends before what was read of it")

// follow reads the dead-letter topic to its present end. With uncommitted that is the end of all records, and
// it waits for transactions that are open before.
func (c *Consumer) follow(ctx context.Context, topic string, known follower, end isolation) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	info, err := c.cluster.topic(ctx, topic)
	if err != nil {
		return err
	}
	partitions := partitionsOf(topic, info.partitions())
	firsts, ends, err := c.cluster.bounds(ctx, partitions, end)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if known.offsets()[p.id] > ends[p] {
			return fmt.Errorf("partition %d: %w", p.id, errShorter)
		}
		known.expire(p.id, firsts[p])
		for at := max(known.offsets()[p.id], firsts[p]); at < ends[p]; {
			var records []Message
			if records, at, err = c.cluster.fetch(ctx, p, info.leaders[p.id], at); err != nil {
				return fmt.Errorf("partition %d: %w", p.id, err)
			}
			for _, m := range records {
				known.add(m)
			}
			if known.offsets()[p.id] = at; len(records) == 0 && at < ends[p] {
				sleep(ctx, 100*time.Millisecond) // an open transaction
			}
		}
	}
	return ctx.Err()
}

func partitionsOf(topic string, ids []int) []topicPartition {
	of := make([]topicPartition, len(ids))
	for i, id := range ids {
		of[i] = topicPartition{topic, id}
	}
	return of
}
