package consumer

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"
)

// lookEvery is how often the ends of the assigned partitions are read, for the lag.
const lookEvery = 10 * time.Second

// watch reads the ends of the partitions until the generation is over. A partition whose handler hangs reads nothing,
// so its own messages cannot tell how much waits.
func (g *generation) watch(over context.Context) {
	for over.Err() == nil {
		g.readEnds(over)
		sleep(over, lookEvery)
	}
}

func (g *generation) readEnds(over context.Context) {
	topics := map[string][]kafka.OffsetRequest{}
	for _, p := range g.progress {
		s := p.read()
		topics[s.Topic] = append(topics[s.Topic], kafka.FirstOffsetOf(s.Partition), kafka.LastOffsetOf(s.Partition))
	}
	if len(topics) == 0 {
		return
	}
	answer, err := answered(over, g.c.client.ListOffsets, &kafka.ListOffsetsRequest{
		Topics: topics, IsolationLevel: kafka.ReadCommitted,
	})
	if err != nil {
		if over.Err() == nil {
			g.c.opts.Logger.Warn("reading the ends of the partitions failed, so the lag is an old one",
				"group", g.c.opts.Group, "error", err.Error())
		}
		return
	}
	for _, p := range g.progress {
		s := p.read()
		for _, o := range answer.Topics[s.Topic] {
			if o.Partition == s.Partition && o.Error == nil {
				p.looked(o.FirstOffset, o.LastOffset)
			}
		}
	}
}
