package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// fetcher reads the committed records of one partition. kafka-go's Reader would do this but for two things: it gives
// nil for an empty value as it does for a null one, so an event with an empty payload looks like a tombstone, and it
// returns the records of aborted transactions (kafka-go issue 1332).
type fetcher struct {
	client    *kafka.Client
	topic     string
	partition int
	at        int64 // the offset to fetch from
	last      int   // steps of the last answer
}

// fetched is one step of a fetcher: a record, offsets without a record to handle, or an error.
type fetched struct {
	record  kafka.Message
	isEvent bool  // otherwise the offsets before next hold nothing to handle
	next    int64 // the offset after this step
	err     error
}

const (
	fetchBytes = 1 << 20 // a larger batch comes whole all the same (KIP-74)
	fetchLimit = fetchWait + 10*time.Second
)

// run sends the steps that it reads until ctx ends or the broker answers that the offset is out of range. An error of
// another kind is sent, and the fetch is repeated.
func (f *fetcher) run(ctx context.Context, out chan<- fetched) {
	defer close(out)
	for ctx.Err() == nil {
		steps, err := f.fetch(ctx)
		if err != nil {
			steps = append(steps, fetched{next: f.at, err: err})
		}
		for _, step := range steps {
			select {
			case out <- step:
				f.at = step.next
			case <-ctx.Done():
				return
			}
		}
		switch {
		case errors.Is(err, kafka.OffsetOutOfRange):
			return
		case err != nil:
			// The transport would use its cached metadata of the partition's leader for six seconds more.
			if t, ok := f.client.Transport.(*kafka.Transport); ok {
				t.CloseIdleConnections()
			}
			sleep(ctx, time.Second)
		}
	}
}

// fetch asks once.
func (f *fetcher) fetch(ctx context.Context) ([]fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	if f.at < 0 {
		if err := f.resolve(ctx); err != nil {
			return nil, err
		}
	}
	answer, err := f.client.Transport.RoundTrip(ctx, f.client.Addr, &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(fetchWait / time.Millisecond), MinBytes: 1, MaxBytes: fetchBytes,
		IsolationLevel: int8(kafka.ReadCommitted), SessionEpoch: -1, // no session
		Topics: []fetch.RequestTopic{{Topic: f.topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(f.partition), CurrentLeaderEpoch: -1, FetchOffset: f.at, LogStartOffset: -1,
			PartitionMaxBytes: fetchBytes,
		}}}},
	})
	if err != nil {
		return nil, err
	}
	r := answer.(*fetch.Response)
	switch {
	case r.ErrorCode != 0:
		return nil, kafka.Error(r.ErrorCode)
	case len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1:
		return nil, errors.New("the broker's answer is not about the one partition that was asked for")
	}
	p := &r.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return nil, kafka.Error(p.ErrorCode)
	}
	return f.scan(p)
}

// resolve finds the start of the partition.
func (f *fetcher) resolve(ctx context.Context) error {
	first, err := firstOffset(ctx, f.client, f.topic, f.partition)
	if err == nil {
		f.at = first
	}
	return err
}

// firstOffset returns the offset of the first record that exists.
func firstOffset(ctx context.Context, client *kafka.Client, topic string, partition int) (int64, error) {
	answer, err := answered(ctx, client.ListOffsets, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(partition)}},
	})
	if err != nil {
		return 0, err
	}
	offsets := answer.Topics[topic]
	if len(offsets) != 1 {
		return 0, errors.New("the broker's answer does not name the partition")
	}
	return offsets[0].FirstOffset, offsets[0].Error
}

// scan returns the steps of an answer from f.at on. The broker names the aborted transactions of the answer: from the
// first offset of such a transaction on, the records that its producer wrote in transactions are aborted, up to the
// marker that ends the transaction (KIP-98).
func (f *fetcher) scan(p *fetch.ResponsePartition) (steps []fetched, err error) {
	stream, ok := p.RecordSet.Records.(*protocol.RecordStream)
	if !ok {
		return nil, nil
	}
	slices.SortFunc(p.AbortedTransactions, func(a, b fetch.ResponseTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	listed, aborted, next := p.AbortedTransactions, map[int64]bool{}, f.at
	steps = make([]fetched, 0, f.last)
	defer func() { f.last = len(steps) }()
	for _, set := range stream.Records {
		var records protocol.RecordReader = set
		base, handle := int64(-1), true
		switch b := set.(type) {
		case *protocol.ControlBatch:
			base, records, handle = b.BaseOffset, b.Records, false
			listed = begun(listed, base, aborted)
			delete(aborted, b.ProducerID)
		case *protocol.RecordBatch:
			base, records = b.BaseOffset, b.Records
			listed = begun(listed, base, aborted)
			handle = !b.Attributes.Transactional() || !aborted[b.ProducerID]
		}
		if base > next { // the batches before are empty at their end: compaction, or a transaction's marker
			next = base
		}
		for {
			step, err := f.step(records, p.HighWatermark)
			if err != nil {
				return steps, err
			}
			if step == nil {
				break
			}
			if step.next <= next { // the batch begins before the fetch offset
				continue
			}
			if next = step.next; !handle {
				*step = fetched{next: next}
			}
			steps = append(steps, *step)
		}
	}
	if len(steps) == 0 && next == f.at {
		next++ // one batch, which compaction has left without records
	}
	if len(steps) == 0 {
		steps = append(steps, fetched{next: next})
	}
	return steps, nil
}

// begun notes the aborted transactions that have begun at the offset, and returns the others.
func begun(listed []fetch.ResponseTransaction, at int64, aborted map[int64]bool) []fetch.ResponseTransaction {
	for len(listed) > 0 && listed[0].FirstOffset <= at {
		aborted[listed[0].ProducerID] = true
		listed = listed[1:]
	}
	return listed
}

// step reads the next record of a batch; nil: there is none. Of key, value and headers, nil is null, and empty is not.
func (f *fetcher) step(records protocol.RecordReader, end int64) (*fetched, error) {
	r, err := records.ReadRecord()
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // no record
	case err != nil:
		return nil, err
	}
	m := kafka.Message{
		Topic: f.topic, Partition: f.partition, Offset: r.Offset, HighWaterMark: end, Time: r.Time, Headers: r.Headers,
	}
	for _, part := range []struct {
		from protocol.Bytes
		to   *[]byte
	}{{r.Key, &m.Key}, {r.Value, &m.Value}} {
		if part.from == nil {
			continue
		}
		*part.to, err = protocol.ReadAll(part.from)
		if err = errors.Join(err, part.from.Close()); err != nil {
			return nil, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
	}
	return &fetched{record: m, isEvent: true, next: r.Offset + 1}, nil
}
