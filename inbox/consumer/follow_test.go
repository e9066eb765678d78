package consumer

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unclear is a broker that answers every question about a topic with an error.
type unclear struct{ err *kerr.Error }

func (u unclear) Request(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	r, ok := req.(*kmsg.MetadataRequest)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	answer := kmsg.NewPtrMetadataResponse()
	for _, asked := range r.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.ErrorCode = asked.Topic, u.err.Code
		answer.Topics = append(answer.Topics, t)
	}
	return answer, nil
}

// A broker that does not know the topic at the moment has not said that it holds no letters: the keys of letters that
// are there would not be held.
//
// Bug (letters): A topic error in Kafka's metadata counted as a dead-letter topic without letters. Cost: with
// `HoldKeys`, events of held keys were handled; added partitions did not wait for older ones. Also:
// `TestOlderPartitionsOfATopicThatIsNotKnown` in `inbox/consumer`.
func TestFollowATopicThatIsNotKnown(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable} {
		c := &Consumer{cluster: &cluster{now: &asking{asker: unclear{err}}}}
		require.ErrorIs(t, c.follow(t.Context(), "t.DLT", newHolds("g", "t", 3), uncommitted), err)
	}
}

// The same answer does not say that a partition that was added has no older ones to wait for.
func TestOlderPartitionsOfATopicThatIsNotKnown(t *testing.T) {
	c := &Consumer{cluster: &cluster{now: &asking{asker: unclear{kerr.LeaderNotAvailable}}}}
	p := &partition{c: c, topicPartition: topicPartition{"t", 1}}
	_, err := p.committedOthers(t.Context())
	require.ErrorIs(t, err, kerr.LeaderNotAvailable)
}
