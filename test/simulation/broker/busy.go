package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// refused is a coordinator's answer that nothing was done; nil where the request is not a coordinator's. A group's
// coordinator is loading its log, whatever the code is, since some codes are of transactions only.
func refused(req kmsg.Request, code int16) kmsg.Response {
	const loading = 14
	switch req := req.(type) {
	case *kmsg.InitProducerIDRequest:
		if req.TransactionalID == nil {
			return nil
		}
		res := kmsg.NewPtrInitProducerIDResponse()
		res.ProducerID, res.ProducerEpoch, res.ErrorCode = -1, -1, code
		return res
	case *kmsg.AddPartitionsToTxnRequest:
		res := kmsg.NewPtrAddPartitionsToTxnResponse()
		for _, topic := range req.Topics {
			t := kmsg.NewAddPartitionsToTxnResponseTopic()
			t.Topic = topic.Topic
			for _, i := range topic.Partitions {
				p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				p.Partition, p.ErrorCode = i, code
				t.Partitions = append(t.Partitions, p)
			}
			res.Topics = append(res.Topics, t)
		}
		return res
	case *kmsg.AddOffsetsToTxnRequest:
		res := kmsg.NewPtrAddOffsetsToTxnResponse()
		res.ErrorCode = code
		return res
	case *kmsg.EndTxnRequest:
		res := kmsg.NewPtrEndTxnResponse()
		res.ErrorCode = code
		return res
	case *kmsg.TxnOffsetCommitRequest:
		res := kmsg.NewPtrTxnOffsetCommitResponse()
		for _, topic := range req.Topics {
			t := kmsg.NewTxnOffsetCommitResponseTopic()
			t.Topic = topic.Topic
			for _, part := range topic.Partitions {
				p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				p.Partition, p.ErrorCode = part.Partition, loading
				t.Partitions = append(t.Partitions, p)
			}
			res.Topics = append(res.Topics, t)
		}
		return res
	case *kmsg.OffsetFetchRequest:
		res := kmsg.NewPtrOffsetFetchResponse()
		res.ErrorCode = loading
		return res
	}
	return nil
}
