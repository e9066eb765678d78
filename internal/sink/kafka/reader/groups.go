package reader

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go/protocol/listgroups"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// maxGroups bounds the groups that are asked for. Each costs a request.
const maxGroups = 10_000

// Groups implements sink.GroupReader. Every broker lists the groups that it coordinates, and answers for them. It needs
// DESCRIBE of the groups.
func (r *Reader) Groups(ctx context.Context, spans []sink.Span) ([]sink.Group, error) {
	by := map[string][]sink.Span{} // by topic
	for _, s := range spans {
		by[s.Topic] = append(by[s.Topic], s)
	}
	var groups []sink.Group
	err := r.retry(ctx, "kafka", func() error {
		groups = groups[:0]
		answer, err := r.metadata(ctx, []string{})
		if err != nil {
			return err
		}
		for i := range answer.Brokers {
			b := &answer.Brokers[i]
			of, err := r.groupsOf(ctx, wire.BrokerAddr(b.Host, b.Port), by, maxGroups-len(groups))
			if err != nil {
				return err
			}
			groups = append(groups, of...)
		}
		return nil
	})
	slices.SortFunc(groups, func(a, b sink.Group) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Topic, b.Topic))
	})
	return groups, err
}

var _ sink.GroupReader = (*Reader)(nil)

// groupsOf asks the coordinator of some groups.
func (r *Reader) groupsOf(ctx context.Context, addr string, by map[string][]sink.Span, most int) ([]sink.Group, error) {
	w, err := r.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	res, err := r.ask(ctx, w, &listgroups.Request{})
	if err != nil {
		return nil, err
	}
	list := res.(*listgroups.Response)
	if list.ErrorCode != 0 {
		return nil, &wire.CodeError{API: "ListGroups", Code: list.ErrorCode}
	}
	if len(list.Groups) > most {
		return nil, fmt.Errorf("the cluster has more than %d consumer groups", maxGroups)
	}
	var groups []sink.Group
	for i := range list.Groups {
		of, err := r.progress(ctx, w, list.Groups[i].GroupID, by)
		if err != nil {
			return nil, err
		}
		groups = append(groups, of...)
	}
	return groups, nil
}

// progress asks how far a group is. A group that may not be described, or has ended meanwhile, has no progress.
func (r *Reader) progress(
	ctx context.Context, w *wire.Conn, group string, by map[string][]sink.Span,
) ([]sink.Group, error) {
	req := &offsetfetch.Request{GroupID: group}
	for _, topic := range slices.Sorted(maps.Keys(by)) {
		of := offsetfetch.RequestTopic{Name: topic}
		for _, s := range by[topic] {
			of.PartitionIndexes = append(of.PartitionIndexes, s.Partition)
		}
		req.Topics = append(req.Topics, of)
	}
	res, err := r.ask(ctx, w, req)
	if err != nil {
		return nil, err
	}
	var groups []sink.Group
	answer := res.(*offsetfetch.Response)
	for i := range answer.Topics {
		t := &answer.Topics[i]
		confirmed := map[int32]int64{}
		for j := range t.Partitions {
			if p := &t.Partitions[j]; p.ErrorCode == 0 && p.CommittedOffset >= 0 {
				confirmed[p.PartitionIndex] = p.CommittedOffset
			}
		}
		if len(confirmed) > 0 && answer.ErrorCode == 0 {
			groups = append(groups, sink.Group{Name: group, Topic: t.Name, Lag: unread(by[t.Name], confirmed)})
		}
	}
	return groups, nil
}

// unread counts what is left of the spans. Offsets before their beginning were removed.
func unread(spans []sink.Span, confirmed map[int32]int64) (n int64) {
	for _, s := range spans {
		from := s.From
		if at, ok := confirmed[s.Partition]; ok {
			from = max(from, at)
		}
		n += max(s.End-from, 0)
	}
	return n
}
