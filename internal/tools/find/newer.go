package find

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
)

// newer looks, for an event that is not in Kafka, whether its topic is compacted and has a record of its key that is
// not older: then Kafka has removed the event, or may do so at any time, and it must not be published after that.
func (o *Options) newer(ctx context.Context, r *Report) error {
	if o.ID == "" || len(r.Rows) == 0 || r.Rows[0].Bad != "" || len(r.Records) > 0 || r.Rows[0].Timestamp == nil {
		return nil
	}
	row := &r.Rows[0]
	k, err := o.Reader()
	if err != nil {
		return err
	}
	defer k.Close()
	if r.Compacted, _, err = k.Compacted(ctx, row.Topic); err != nil || !r.Compacted {
		return err
	}
	spans, err := k.Spans(ctx, row.Topic)
	if err != nil {
		return err
	}
	for _, span := range spans {
		if !o.Placed && kafka.PartitionOf(row.key, len(spans)) != span.Partition {
			continue
		}
		for m, err := range k.Search(ctx, span, row.key, func(int64) {}) {
			if err != nil {
				return err
			}
			if !bytes.Equal(m.Key, row.key) || m.Timestamp < row.Timestamp.UnixMilli() {
				continue
			}
			r.Newer = new(o.record(m))
		}
	}
	return nil
}

func superseded(r *Report) bool {
	if r.Newer == nil {
		return false
	}
	r.Verdict = Superseded
	by := ""
	if r.Newer.EventID != "" {
		by = fmt.Sprintf(" of event %s", r.Newer.EventID)
	}
	r.Sentence = fmt.Sprintf("Superseded: topic %s is compacted and keeps the last record of each key, and partition "+
		"%d has a record%s with the key at offset %d, of %s, which is not older.", r.Newer.Topic, r.Newer.Partition, by,
		r.Newer.Offset, human.Time(r.Newer.Timestamp))
	return true
}
