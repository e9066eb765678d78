package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicPartition names a partition.
type topicPartition struct {
	topic string
	id    int
}

// topicInfo is a broker's knowledge of a topic.
type topicInfo struct {
	id       topicID
	err      error
	internal bool
	leaders  map[int]int32 // by partition
}

// exists is false for the zero value, which an answer about all topics has for others.
func (t topicInfo) exists() bool {
	return t.leaders != nil && !errors.Is(t.err, kerr.UnknownTopicOrPartition)
}

// partitions lists the topic's partitions.
func (t topicInfo) partitions() []int { return slices.Sorted(maps.Keys(t.leaders)) }

// ask sends a request and returns its answer, which has the type of the request's.
func ask[R kmsg.Response](ctx context.Context, c *cluster, req kmsg.Request) (answer R, err error) {
	client, err := c.client()
	if err != nil {
		return answer, err
	}
	return askOf[R](ctx, client, req)
}

// askOf asks one client or broker. The client does not end each request with its context, so it is not waited for.
func askOf[R kmsg.Response](ctx context.Context, of asker, req kmsg.Request) (answer R, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	type result struct {
		kmsg.Response
		error
	}
	asked := make(chan result, 1)
	go func() { // ends with the client
		got, err := of.Request(ctx, req)
		asked <- result{got, err}
	}()
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case r := <-asked:
		if err = r.error; err == nil {
			var ok bool
			if answer, ok = r.Response.(R); !ok {
				err = fmt.Errorf("an answer of type %T", r.Response)
			}
		}
	}
	return answer, err
}

// topics asks for topics, or for all if there are no names. The answer has an entry for each name, maybe with an error.
func (c *cluster) topics(ctx context.Context, names []string) (map[string]topicInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	answer, err := ask[*kmsg.MetadataResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	infos := map[string]topicInfo{}
	for _, t := range answer.Topics {
		if t.Topic == nil {
			continue
		}
		info := topicInfo{
			id: t.TopicID, err: kerr.ErrorForCode(t.ErrorCode), internal: t.IsInternal, leaders: map[int]int32{},
		}
		for _, p := range t.Partitions {
			info.leaders[int(p.Partition)] = p.Leader
		}
		infos[*t.Topic] = info
	}
	for _, name := range names {
		if _, ok := infos[name]; !ok {
			return nil, fmt.Errorf("the broker's answer does not name the topic %s", name)
		}
	}
	return infos, nil
}

// topic asks for one topic. That a broker does not know it at the moment is an error, and not a topic without
// partitions.
func (c *cluster) topic(ctx context.Context, name string) (topicInfo, error) {
	infos, err := c.topics(ctx, []string{name})
	if err != nil {
		return topicInfo{}, err
	}
	if t := infos[name]; t.err != nil {
		return t, fmt.Errorf("topic %s: %w", name, t.err)
	}
	return infos[name], nil
}

// Timestamps of a request for offsets that stand for the ends of a partition.
const (
	atFirst = -2
	atEnd   = -1
)

// isolation is a level of KIP-98.
type isolation int8

const (
	uncommitted isolation = 0
	committed   isolation = 1
)

// offsets asks for the first offsets of partitions, or for their ends. With an error it returns the offsets that are
// known all the same.
func (c *cluster) offsets(
	ctx context.Context, of []topicPartition, at int64, level isolation,
) (offsets map[topicPartition]int64, err error) {
	offsets = map[topicPartition]int64{}
	if len(of) == 0 {
		return offsets, nil
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = int8(level)
	for topic, partitions := range byTopic(of, func(tp topicPartition) kmsg.ListOffsetsRequestTopicPartition {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = int32(tp.id), at
		return p
	}) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
	}
	answer, err := ask[*kmsg.ListOffsetsResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if refused := kerr.ErrorForCode(p.ErrorCode); refused != nil {
				err = fmt.Errorf("%s partition %d: %w", t.Topic, p.Partition, refused)
				continue
			}
			offsets[topicPartition{t.Topic, int(p.Partition)}] = p.Offset
		}
	}
	if err == nil {
		err = named(of, offsets)
	}
	return offsets, err
}

// bounds asks for the first offsets of partitions, and for their ends.
func (c *cluster) bounds(
	ctx context.Context, of []topicPartition, level isolation,
) (firsts, ends map[topicPartition]int64, err error) {
	if firsts, err = c.offsets(ctx, of, atFirst, level); err == nil {
		ends, err = c.offsets(ctx, of, atEnd, level)
	}
	return firsts, ends, err
}

// byTopic is the form of requests: topics, and of each its partitions.
func byTopic[P any](of []topicPartition, partition func(topicPartition) P) map[string][]P {
	topics := map[string][]P{}
	for _, tp := range of {
		topics[tp.topic] = append(topics[tp.topic], partition(tp))
	}
	return topics
}

// named returns an error if an answer does not name a partition that was asked about.
func named[V any](of []topicPartition, in map[topicPartition]V) error {
	for _, tp := range of {
		if _, ok := in[tp]; !ok {
			return fmt.Errorf("the broker's answer does not name %s partition %d", tp.topic, tp.id)
		}
	}
	return nil
}

// offset asks for one offset.
func (c *cluster) offset(ctx context.Context, of topicPartition, at int64, level isolation) (int64, error) {
	offsets, err := c.offsets(ctx, []topicPartition{of}, at, level)
	return offsets[of], err
}

// fetch reads committed records from an offset on, and returns the offset after them. It asks the leader, and does not
// wait for records.
func (c *cluster) fetch(
	ctx context.Context, of topicPartition, leader int32, at int64,
) (ms []Message, next int64, err error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 0, 1, fetchBytes, int8(committed)
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(of.id), at, fetchBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = of.topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	client, err := c.client()
	if err != nil {
		return nil, at, err
	}
	answer, err := askOf[*kmsg.FetchResponse](ctx, client.leader(leader), req)
	if err != nil {
		return nil, at, err
	}
	switch err := kerr.ErrorForCode(answer.ErrorCode); {
	case err != nil:
		return nil, at, err
	case len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1:
		return nil, at, errors.New("the broker's answer is not about the one partition that was asked for")
	}
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: at, IsolationLevel: kgo.ReadCommitted(), Topic: of.topic, Partition: int32(of.id),
	}, &answer.Topics[0].Partitions[0], client.decompressor, nil)
	for _, r := range fetched.Records {
		ms = append(ms, messageOf(r))
	}
	return ms, next, fetched.Err
}

// write writes a record to its partition, or to that of its key if the partition is negative.
func (c *cluster) write(ctx context.Context, m Message) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	r := &kgo.Record{Topic: m.Topic, Partition: int32(m.Partition), Key: m.Key, Value: m.Value, Timestamp: m.Time}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader(h))
	}
	return client.writer.ProduceSync(ctx, r).FirstErr()
}

// messageOf returns the message of a record, before its headers are read.
func messageOf(r *kgo.Record) Message {
	m := Message{
		Topic: r.Topic, Partition: int(r.Partition), Offset: r.Offset, Key: r.Key, Value: r.Value, Time: r.Timestamp,
	}
	if len(r.Headers) > 0 {
		m.Headers = make([]Header, len(r.Headers))
		for i, h := range r.Headers {
			m.Headers[i] = Header(h)
		}
	}
	return m
}
