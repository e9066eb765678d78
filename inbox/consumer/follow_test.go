package consumer

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/stretchr/testify/require"
)

// letterTopic answers for a dead-letter topic of one partition, with one letter of partition 3 of topic t in each
// fetch.
type letterTopic struct {
	err     kafka.Error // of the topic
	letters int64
}

func (l *letterTopic) RoundTrip(_ context.Context, _ net.Addr, request kafka.Request) (kafka.Response, error) {
	switch r := request.(type) {
	case *metadata.Request:
		topic := metadata.ResponseTopic{Name: "t.DLT", ErrorCode: int16(l.err)}
		if l.err == 0 {
			topic.Partitions = []metadata.ResponsePartition{{}}
		}
		return &metadata.Response{Topics: []metadata.ResponseTopic{topic}}, nil
	case *listoffsets.Request:
		answer := &listoffsets.Response{}
		for _, t := range r.Topics {
			answer.Topics = append(answer.Topics, listoffsets.ResponseTopic{
				Topic: t.Topic, Partitions: []listoffsets.ResponsePartition{
					{Timestamp: kafka.FirstOffset}, {Timestamp: kafka.LastOffset, Offset: l.letters},
				},
			})
		}
		return answer, nil
	case *fetch.Request:
		at := r.Topics[0].Partitions[0].FetchOffset
		letter := heldLetter(int(at), "e"+strconv.FormatInt(at, 10), Refused)
		batch := &protocol.RecordBatch{BaseOffset: at, Records: protocol.NewRecordReader(
			protocol.Record{Offset: at, Headers: letter.Headers},
		)}
		return &fetch.Response{Topics: []fetch.ResponseTopic{{Topic: "t.DLT", Partitions: []fetch.ResponsePartition{{
			HighWatermark: l.letters,
			RecordSet: protocol.RecordSet{
				Version: 2, Records: &protocol.RecordStream{Records: []protocol.RecordReader{batch}},
			},
		}}}}}, nil
	}
	return nil, errors.ErrUnsupported
}

func (l *letterTopic) follow(t *testing.T, h *holds) error {
	t.Helper()
	c := &Consumer{client: &kafka.Client{Addr: kafka.TCP("b"), Transport: l}}
	return c.follow(t.Context(), "t.DLT", h, kafka.ReadUncommitted)
}

// A broker that does not know the topic at the moment has not said that it holds no letters: the keys of letters that
// are there would not be held.
//
// Bug (letters): A topic error in Kafka's metadata counted as a dead-letter topic without letters. Cost: with
// `HoldKeys`, events of held keys were handled; added partitions did not wait for older ones. Also:
// `TestOlderPartitionsOfATopicThatIsNotKnown` in `inbox/consumer`.
func TestFollowATopicThatIsNotKnown(t *testing.T) {
	for _, err := range []kafka.Error{kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable} {
		l := &letterTopic{letters: 1, err: err}
		require.ErrorIs(t, l.follow(t, newHolds("g", "t", 3)), err)
	}
}

// The same answer does not say that a partition that was added has no older ones to wait for.
func TestOlderPartitionsOfATopicThatIsNotKnown(t *testing.T) {
	c := &Consumer{client: &kafka.Client{Addr: kafka.TCP("b"), Transport: &letterTopic{err: kafka.LeaderNotAvailable}}}
	p := &partition{c: c, topic: "t", id: 1}
	_, err := p.committedOthers(t.Context())
	require.ErrorIs(t, err, kafka.LeaderNotAvailable)
}
