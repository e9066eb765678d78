package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
)

// Guard refuses compacted topics. Of a key such a topic keeps the last record: one that is published again replaces a
// newer one for good.
type Guard struct {
	Cluster  wire.Cluster
	Progress progress.Reporter

	judged map[string]error
}

// Judge returns why nothing is published again to the topic, a *fault.Error. A topic whose configuration the user may
// not read is not refused.
func (g *Guard) Judge(ctx context.Context, topic string) error {
	if g == nil {
		return nil
	}
	err, ok := g.judged[topic]
	if ok {
		return err
	}
	k, err := reader.New(g.Cluster)
	if err != nil {
		return err
	}
	defer k.Close()
	defer g.Progress.Wait(progress.Reading(k))()
	compacted, _, err := k.Compacted(ctx, topic)
	if err != nil {
		return err
	}
	var why error
	if compacted {
		why = &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("topic %q", topic),
			Err: errors.New("it is compacted: an event that is published again becomes the last record of its key, " +
				"and Kafka removes a newer one for good"),
			Next: "To publish what the topic lacks, run `cdc-outbox repair`, which leaves out events that newer ones " +
				"have replaced. Name another topic with --topic, or, if these are the newest events of their keys, " +
				"add --into-compacted.",
		}
	}
	if g.judged == nil {
		g.judged = map[string]error{}
	}
	g.judged[topic] = why
	return why
}
