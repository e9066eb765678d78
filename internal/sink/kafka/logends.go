package kafka

import (
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

// LogEnds knows where the logs of partitions end, by acknowledgements. An acknowledged record has an offset for good,
// and each later one of its partition has a higher offset. A lower one shows that the log went back: the topic was
// deleted and created again, a replica that lacked records became the leader, or the cluster was put back to an older
// copy of itself.
type LogEnds struct {
	mu   sync.Mutex
	of   string             // id of the cluster whose ends these are; empty: not known yet
	ends map[string][]int64 // by topic and partition, the offset after the last acknowledged record; 0: not known
	lost []LostRecords
}

// LostRecords are records of a partition that Kafka had acknowledged and no longer has.
type LostRecords struct {
	Topic     string
	Partition int32
	From, To  int64 // their offsets; To is after the last one
}

// Expect takes the ends that an earlier process, or another one, has seen in the cluster of that id, instead of all
// that were known.
func (l *LogEnds) Expect(cluster string, ends map[string][]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of, l.ends = cluster, make(map[string][]int64, len(ends))
	for topic, of := range ends {
		l.ends[topic] = slices.Clone(of)
	}
}

// Account returns a copy of the ends in the cluster of that id, which is empty while it is not known, and the losses
// that were not Settled.
func (l *LogEnds) Account(cluster string) (ends map[string][]int64, lost []LostRecords) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(cluster)
	ends = maps.Clone(l.ends)
	for topic, of := range ends {
		ends[topic] = slices.Clone(of)
	}
	return ends, slices.Clone(l.lost)
}

// Listed compares ends that were known before with ends that brokers have named since, -1 for one that is not known. It
// returns the losses: also of a partition to which nothing is written any more. An end that has moved meanwhile is left
// to the acknowledgements.
func (l *LogEnds) Listed(cluster string, before, listed map[string][]int64) (lost []LostRecords) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(cluster)
	for topic, of := range listed {
		known, then := l.ends[topic], before[topic]
		for i, end := range of[:min(len(of), len(known), len(then))] {
			if end < 0 || end >= known[i] || known[i] != then[i] {
				continue
			}
			one := LostRecords{topic, int32(i), end, known[i]}
			known[i], lost = end, append(lost, one)
			l.add(one)
		}
	}
	return lost
}

// Settled takes losses out of the account.
func (l *LogEnds) Settled(lost []LostRecords) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = slices.DeleteFunc(l.lost, func(one LostRecords) bool { return slices.Contains(lost, one) })
}

// appended takes the place of a batch, and returns the records that are lost if its log went back. An offset of -1
// says nothing: the broker took the batch for a repeat, and has forgotten its place.
func (l *LogEnds) appended(cluster, topic string, partition int32, offset int64, records int32) (LostRecords, bool) {
	if offset < 0 {
		return LostRecords{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(cluster)
	of := l.ends[topic]
	if grow := int(partition) + 1 - len(of); grow > 0 {
		if l.ends == nil {
			l.ends = map[string][]int64{}
		}
		of = append(of, make([]int64, grow)...)
		l.ends[topic] = of
	}
	end := of[partition]
	of[partition] = offset + int64(records)
	if offset >= end {
		return LostRecords{}, false
	}
	lost := LostRecords{topic, partition, offset, end}
	l.add(lost)
	return lost, true
}

// add keeps one loss for each partition at most.
func (l *LogEnds) add(lost LostRecords) {
	for i := range l.lost {
		if one := &l.lost[i]; one.Topic == lost.Topic && one.Partition == lost.Partition {
			one.From, one.To = min(one.From, lost.From), max(one.To, lost.To)
			return
		}
	}
	l.lost = append(l.lost, lost)
}

// noteEnd says that records are lost if the acknowledged batch is where others were.
func (c *Config) noteEnd(b *batch) {
	topic, index := b.part.topic.name, b.part.index
	lost, is := c.Ends.appended(c.Identity.ID(), topic, index, b.baseOffset, b.records)
	if !is {
		return
	}
	lost.Report(c.Logger)
}

// Report logs the loss.
func (l *LostRecords) Report(log *zap.Logger) {
	log.Error("records that Kafka had acknowledged are no longer in the partition",
		zap.String(logkey.Topic, l.Topic), zap.Int32(logkey.Partition, l.Partition), zap.Int64(logkey.Before, l.To),
		zap.Int64(logkey.Now, l.From))
}

// enter forgets the ends of another cluster, once the present one is known: its topics are others.
func (l *LogEnds) enter(cluster string) {
	if cluster == "" {
		return
	}
	if l.of != "" && l.of != cluster {
		l.ends = nil
	}
	l.of = cluster
}
