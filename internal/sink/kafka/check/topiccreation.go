package check

import (
	"context"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createtopics"
)

// missing judges the topics that do not exist: where they are to be created, the cluster is asked whether it would.
func (c *checker) missing(ctx context.Context, w *wire.Conn, controller string, topics []string) error {
	const why = "Records for it wait until it does, and everything after them."
	req := &createtopics.Request{ValidateOnly: true}
	for _, name := range topics {
		switch {
		case wire.InternalTopic(name):
			c.fail("topic "+name, "It does not exist, and names that start with __ are Kafka's own.", why,
				fault.Do("Correct router.topic or the rows."))
		case c.cfg.CreateTopic == nil:
			c.fail("topic "+name, "It does not exist.", why, c.cfg.CreateTopicByHand(name))
		default:
			req.Topics = append(req.Topics, c.cfg.CreateTopic(name).Request(name))
		}
	}
	if len(req.Topics) == 0 {
		return nil
	}
	if v, err := w.Version(protocol.CreateTopics); err != nil || v < 1 {
		for i := range req.Topics {
			c.warn("topic "+req.Topics[i].Name, "It does not exist, and whether it can be created is not known.",
				"The brokers are too old to say so beforehand.", c.cfg.CreateTopicByHand(req.Topics[i].Name))
		}
		return nil // there is no version to ask with
	}
	answers, err := wire.CreateTopics(ctx, &c.cfg.Cluster, w, controller, req, c.cfg.RequestTimeout)
	if err != nil {
		return err
	}
	for i := range answers {
		a := &answers[i]
		s := c.cfg.CreateTopic(a.Name)
		if a.ErrorCode == 0 || a.ErrorCode == wire.TopicAlreadyExists {
			c.ok("topic "+a.Name, fmt.Sprintf("It does not exist; it will be created, partitions: %d, replicas: %d.",
				s.Partitions, s.ReplicationFactor))
			continue
		}
		r := c.cfg.CreationRefused(a.Name, s, a)
		c.fail("topic "+a.Name, "It does not exist and could not be created: "+r.Sentence, why, r.Remedy)
	}
	return nil
}
