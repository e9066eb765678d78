package oracle

import (
	"context"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// archive holds what was read from topics before a test deleted them. A re-created topic begins at offset 0; for
// the checks its records follow the records of its predecessor.
type archive struct {
	mu      sync.Mutex
	records []Record
	ends    map[string][]int64 // of the predecessors, by topic and partition
}

// Archive reads the topic, which is about to be deleted. Nothing may be written to it from here until it is
// re-created.
func (o *Oracle) Archive(ctx context.Context, topic string) error {
	var records []Record
	if err := o.cfg.Kafka.Each(ctx, []string{topic}, func(r *kgo.Record) {
		records = append(records, o.archive.behind(RecordOf(r)))
	}); err != nil {
		return err
	}
	a := &o.archive
	a.mu.Lock()
	defer a.mu.Unlock()
	ends := make([]int64, o.cfg.Partitions)
	copy(ends, a.ends[topic])
	for i := range records {
		ends[records[i].Partition] = max(ends[records[i].Partition], records[i].Offset+1)
	}
	all := maps.Clone(a.ends)
	if all == nil {
		all = map[string][]int64{}
	}
	all[topic] = ends
	a.ends, a.records = all, append(a.records, records...)
	return nil
}

// behind moves a record after the records of its topic's predecessors.
func (a *archive) behind(r Record) Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ends := a.ends[r.Topic]; ends != nil {
		r.Offset += ends[r.Partition]
	}
	return r
}

// ends are the topics' end offsets, nil when Kafka does not answer.
func (o *Oracle) ends(ctx context.Context) map[string][]int64 {
	if o.blind.Load() {
		return nil
	}
	listed, err := o.cfg.Kafka.Ends(ctx, o.Topics()...)
	if err != nil || o.blind.Load() {
		return nil
	}
	o.archive.mu.Lock()
	before := o.archive.ends
	o.archive.mu.Unlock()
	ends := map[string][]int64{}
	for topic, partitions := range listed {
		ends[topic] = make([]int64, len(partitions))
		for p, at := range partitions {
			ends[topic][p] = at.Offset
			if b := before[topic]; b != nil {
				ends[topic][p] += b[p]
			}
		}
	}
	return ends
}
