package wire

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// PositionTopicSettings returns the settings of the topic of positions, to which nothing is ever written.
func PositionTopicSettings(brokers int) TopicSettings {
	return TopicSettings{Partitions: 1, ReplicationFactor: min(3, brokers)}
}

// EnsurePositionTopic creates the topic that positions are committed for, if it is missing. It closes w when ctx ends.
// A refusal is a *CodeError.
func EnsurePositionTopic(ctx context.Context, cluster *Cluster, w *Conn, topic string, timeout time.Duration) error {
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	res, err := w.RoundTrip(&metadata.Request{TopicNames: []string{topic}}, timeout)
	if err != nil {
		return err
	}
	known := res.(*metadata.Response)
	if len(known.Topics) == 1 && known.Topics[0].ErrorCode != UnknownTopic {
		return nil // it exists, or what is wrong shows when it is used
	}
	answers, err := CreateTopics(ctx, cluster, w, ControllerOf(known), &createtopics.Request{
		Topics: []createtopics.RequestTopic{PositionTopicSettings(len(known.Brokers)).Request(topic)},
	}, timeout)
	if err != nil {
		return err
	}
	for _, t := range answers {
		if t.ErrorCode != 0 && t.ErrorCode != TopicAlreadyExists {
			return &CodeError{API: "CreateTopics", Code: t.ErrorCode}
		}
	}
	return nil
}
