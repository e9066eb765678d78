package reader

import (
	"context"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// leads is the leader of a partition.
type leads struct {
	addr  string
	epoch int32
}

// Ends returns, by topic and partition, the offset after the last record that all in-sync replicas have; -1 where it is
// not known. A topic that does not exist is left out.
//
// Every broker is asked who leads: one that the others have lost may take itself for a leader, with an old end. It is
// found out by its epoch. A leader that is new says so until it knows the end (KIP-207, version 5 of ListOffsets), and
// a broker without that says nothing.
func (r *Reader) Ends(ctx context.Context, topics []string) (map[string][]int64, error) {
	led, err := r.whoLeads(ctx, topics)
	if err != nil {
		return nil, err
	}
	ends := map[string][]int64{}
	requests := map[string]*listoffsets.Request{}
	for _, topic := range slices.Sorted(maps.Keys(led)) {
		ends[topic] = slices.Repeat([]int64{-1}, len(led[topic]))
		for i, by := range led[topic] {
			if by.addr == "" {
				continue
			}
			req := requests[by.addr]
			if req == nil {
				req = &listoffsets.Request{ReplicaID: -1}
				requests[by.addr] = req
			}
			if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != topic {
				req.Topics = append(req.Topics, listoffsets.RequestTopic{Topic: topic})
			}
			of := &req.Topics[len(req.Topics)-1]
			of.Partitions = append(of.Partitions, listoffsets.RequestPartition{
				Partition: int32(i), CurrentLeaderEpoch: by.epoch, Timestamp: latest,
			})
		}
	}
	for addr, req := range requests {
		if err := r.endsAt(ctx, addr, req, ends); err != nil && ctx.Err() != nil {
			return nil, err
		}
	}
	return ends, nil
}

// endsAt asks one leader. An end that it does not answer stays unknown.
func (r *Reader) endsAt(
	ctx context.Context, addr string, req *listoffsets.Request, ends map[string][]int64,
) error {
	const monotonic = 5
	w, err := r.connect(ctx, addr)
	if err != nil {
		return err
	}
	if v, err := w.Version(protocol.ListOffsets); err != nil || v < monotonic {
		return err
	}
	res, err := r.ask(ctx, w, req)
	if err != nil {
		return err
	}
	for _, t := range res.(*listoffsets.Response).Topics {
		for _, p := range t.Partitions {
			if of := ends[t.Topic]; p.ErrorCode == 0 && int(uint32(p.Partition)) < len(of) {
				of[p.Partition] = p.Offset
			}
		}
	}
	return nil
}

// whoLeads asks every broker, and believes the broker that knows the latest epoch.
func (r *Reader) whoLeads(ctx context.Context, topics []string) (map[string][]leads, error) {
	first, err := r.metadata(ctx, topics)
	if err != nil {
		return nil, err
	}
	led := map[string][]leads{}
	merge(led, first)
	for i := range first.Brokers {
		w, err := r.connect(ctx, wire.BrokerAddr(first.Brokers[i].Host, first.Brokers[i].Port))
		if err != nil {
			continue // it does not lead anything that can be asked
		}
		res, err := r.ask(ctx, w, &metadata.Request{TopicNames: topics})
		if err == nil {
			merge(led, res.(*metadata.Response))
		}
	}
	return led, ctx.Err()
}

// maxPartitions bounds the memory that a broker's answer may ask for.
const maxPartitions = 200_000

// unnamed is before -1, the epoch that an older broker's answer has.
const unnamed = -2

func merge(led map[string][]leads, answer *metadata.Response) {
	addrs := map[int32]string{}
	for i := range answer.Brokers {
		addrs[answer.Brokers[i].NodeID] = wire.BrokerAddr(answer.Brokers[i].Host, answer.Brokers[i].Port)
	}
	for i := range answer.Topics {
		t := &answer.Topics[i]
		of := led[t.Name]
		for _, p := range t.Partitions {
			if p.PartitionIndex < 0 || p.PartitionIndex >= maxPartitions {
				continue
			}
			if grow := int(p.PartitionIndex) + 1 - len(of); grow > 0 {
				of = append(of, slices.Repeat([]leads{{epoch: unnamed}}, grow)...)
			}
			if known := &of[p.PartitionIndex]; p.LeaderEpoch > known.epoch {
				*known = leads{addrs[p.LeaderID], p.LeaderEpoch}
			}
		}
		if len(of) > 0 {
			led[t.Name] = of
		}
	}
}
