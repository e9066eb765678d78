package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stored is a group's offset in a partition, and the topic that it belongs to.
type stored struct {
	next int64 // -1: nothing
	id   topicID
}

// stored asks for the group's offsets in partitions.
func (c *cluster) stored(ctx context.Context, group string, of []topicPartition) (map[topicPartition]stored, error) {
	found := map[topicPartition]stored{}
	if len(of) == 0 {
		return found, nil
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for topic, partitions := range byTopic(of, func(tp topicPartition) int32 { return int32(tp.id) }) {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = topic, partitions
		g.Topics = append(g.Topics, t)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	answer, err := ask[*kmsg.OffsetFetchResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	if len(answer.Groups) != 1 {
		return nil, errors.New("the broker's answer is not about the group")
	}
	err = errors.Join(kerr.ErrorForCode(answer.ErrorCode), kerr.ErrorForCode(answer.Groups[0].ErrorCode))
	if err != nil {
		return nil, err
	}
	for _, t := range answer.Groups[0].Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("%s partition %d: %w", t.Topic, p.Partition, err)
			}
			s := stored{next: p.Offset}
			if p.Metadata != nil {
				s.id = parseStored(*p.Metadata)
			}
			found[topicPartition{t.Topic, int(p.Partition)}] = s
		}
	}
	return found, named(of, found)
}

// membershipOf is a member in a generation of its group.
type membershipOf struct {
	group, member string
	generation    int32
}

// commit commits next offsets for a member. The broker refuses the commits of an earlier generation.
func (c *cluster) commit(ctx context.Context, as membershipOf, offsets map[topicPartition]stored) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = as.group, as.member, as.generation
	partition := func(tp topicPartition) kmsg.OffsetCommitRequestTopicPartition {
		p, s := kmsg.NewOffsetCommitRequestTopicPartition(), offsets[tp]
		p.Partition, p.Offset, p.Metadata = int32(tp.id), s.next, kmsg.StringPtr(s.id.stored())
		return p
	}
	for topic, partitions := range byTopic(slices.Collect(maps.Keys(offsets)), partition) {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
	}
	answer, err := ask[*kmsg.OffsetCommitResponse](ctx, c, req)
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave takes a member out of the group.
func (c *cluster) leave(ctx context.Context, group, member string) error {
	if member == "" {
		return nil
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.Reason = member, kmsg.StringPtr("the consumer ends")
	req.Group, req.MemberID, req.Members = group, member, append(req.Members, m)
	answer, err := ask[*kmsg.LeaveGroupResponse](ctx, c, req)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	return err
}
