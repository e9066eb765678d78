package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// TestAnswersInAnyOrder: each batch gets its own answer, and one that has none is missed, whatever is there twice.
//
// Bug (producer): An answer to a Produce request that named one partition twice and another one not at all was accepted
// as complete. Cost: the other partition's batch counted as acknowledged; no broker is known to answer so.
func TestAnswersInAnyOrder(t *testing.T) {
	r := &request{}
	topics := map[string]*topic{"b": {name: "b", number: 1}, "a": {name: "a"}}
	for _, name := range []string{"b", "a"} {
		for _, index := range []int32{7, 0, 3} {
			r.batches = append(r.batches, newBatch(&partition{topic: topics[name], index: index}))
		}
	}
	r.arrange()
	answer := func(topic string, first int16, indexes ...int32) wire.AnsweredTopic {
		res := wire.AnsweredTopic{Name: []byte(topic)}
		for i, index := range indexes {
			res.Partitions = append(res.Partitions, wire.AnsweredPartition{
				Index: index, Code: first + int16(i), BaseOffset: int64(10 * index),
			})
		}
		return res
	}
	codes, err := r.match(&wire.ProduceAnswer{Topics: []wire.AnsweredTopic{
		answer("b", 1, 3, 7, 0), answer("c", 9, 0), answer("a", 4, 7, 0, 3),
	}}, topics)
	require.NoError(t, err)
	require.Equal(t, []int16{5, 6, 4, 3, 1, 2}, codes)
	require.EqualValues(t, 30, r.batches[4].baseOffset)
	_, err = r.match(&wire.ProduceAnswer{Topics: []wire.AnsweredTopic{
		answer("b", 0, 3, 7, 7), answer("a", 0, 7, 0, 3),
	}}, topics)
	require.ErrorContains(t, err, "5 of the request's 6")
}
