package wire

import (
	"errors"
	"time"

	"github.com/segmentio/kafka-go/protocol/offsetcommit"
)

// CommitOffset commits an offset with its metadata for partition 0 of the topic, for a group without members, and
// returns the error code.
func (w *Conn) CommitOffset(group, topic string, offset int64, metadata string, timeout time.Duration) (int16, error) {
	res, err := w.RoundTrip(&offsetcommit.Request{
		GroupID: group, GenerationID: -1, RetentionTimeMs: -1,
		Topics: []offsetcommit.RequestTopic{{Name: topic, Partitions: []offsetcommit.RequestPartition{{
			CommittedOffset: offset, CommitTimestamp: -1, CommittedLeaderEpoch: -1, CommittedMetadata: metadata,
		}}}},
	}, timeout)
	if err != nil {
		return 0, err
	}
	for _, t := range res.(*offsetcommit.Response).Topics {
		for _, p := range t.Partitions {
			return p.ErrorCode, nil
		}
	}
	return 0, errors.New("the OffsetCommit answer names no partition")
}
