// Package letterbox reads a dead-letter topic.
package letterbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/progress"
)

// Box is a dead-letter topic as it was read.
type Box struct {
	Topic  string
	Ledger deadletter.Ledger

	reader  *reader.Reader
	ends    map[int32]int64 // up to where the ledger is
	silence func()
}

// Open reads the topic to its present end. The caller closes the box.
func Open(ctx context.Context, cluster wire.Cluster, topic string, report progress.Reporter) (*Box, error) {
	r, err := reader.New(cluster)
	if err != nil {
		return nil, err
	}
	b := &Box{Topic: topic, reader: r, ends: map[int32]int64{}, silence: report.Wait(progress.Reading(r))}
	if err := b.Refresh(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends the connections to Kafka.
func (b *Box) Close() {
	b.silence()
	b.reader.Close()
}

// Refresh reads on to the topic's present end.
func (b *Box) Refresh(ctx context.Context) error {
	spans, err := b.reader.Spans(ctx, b.Topic)
	if err != nil {
		return err
	}
	for _, s := range spans {
		s.From = max(s.From, b.ends[s.Partition])
		for m, err := range b.reader.Messages(ctx, s) {
			if err != nil {
				return err
			}
			b.Ledger.Add(recordOf(m))
		}
		b.ends[s.Partition] = max(s.End, s.From)
	}
	return nil
}

// Letter reads one letter again, with its payload.
func (b *Box) Letter(ctx context.Context, e *deadletter.Entry) (*deadletter.Letter, error) {
	span := reader.Span{Topic: b.Topic, Partition: e.Partition, From: e.Offset, End: e.Offset + 1}
	for m, err := range b.reader.Messages(ctx, span) {
		if err != nil {
			return nil, err
		}
		return deadletter.Parse(recordOf(m.Clone()))
	}
	return nil, errors.New("the dead letter no longer exists: the topic's retention has deleted it")
}

// Complete reads what was cut from a consumer's letter where its record was.
func (b *Box) Complete(ctx context.Context, l *deadletter.Letter) error {
	at := l.Source
	span := reader.Span{Topic: at.Topic, Partition: at.Partition, From: at.Offset, End: at.Offset + 1}
	for m, err := range b.reader.Messages(ctx, span) {
		if err != nil {
			return fmt.Errorf("the letter holds no %s, and the record at %s cannot be read: %w; use --from-table",
				strings.Join(l.Cut, ", "), l.Position, err)
		}
		m = m.Clone()
		if id := deadletter.EventID(m.Headers); id != "" && !strings.HasPrefix(l.ID, strings.TrimSuffix(id, "…")) {
			return fmt.Errorf("%s holds another event now; use --from-table", l.Position)
		}
		l.RecordKey, l.Value, l.Headers, l.Cut = m.Key, m.Value, m.Headers, nil
		return nil
	}
	return fmt.Errorf("the letter holds no %s, and its record is no longer at %s; use --from-table",
		strings.Join(l.Cut, ", "), l.Position)
}

func recordOf(m *reader.Message) *deadletter.Record {
	return &deadletter.Record{
		Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value,
		Headers: m.Headers,
	}
}

// Find returns the letters that an argument names, by id or position.
func (b *Box) Find(name string) (*deadletter.Entry, error) {
	var found []*deadletter.Entry
	for _, e := range b.Ledger.Entries() {
		if e.Position == name || e.ID == name && name != "" {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fault.Usage(
			"no dead letter has the id or position "+fault.Printable(name),
			"cdc-outbox dead-letter list shows which there are",
		)
	default:
		var at []string
		for _, e := range found {
			at = append(at, e.Position)
		}
		return nil, fault.Usage(
			fmt.Sprintf("%d dead letters have the id %s", len(found), fault.Printable(name)),
			"name one by its position: "+strings.Join(at, ", "),
		)
	}
}
