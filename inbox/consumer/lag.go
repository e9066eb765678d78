package consumer

import (
	"context"
	"time"
)

// lookEvery is how often the ends of the assigned partitions are read, for the lag.
const lookEvery = 10 * time.Second

// watchEnds reads the ends of the partitions until ctx ends. A partition whose handler hangs reads nothing, so its own
// messages cannot tell how much waits.
func (m *membership) watchEnds(ctx context.Context) {
	for ctx.Err() == nil {
		m.readEnds(ctx)
		select {
		case <-ctx.Done():
		case <-m.look:
		case <-time.After(lookEvery):
		}
	}
}

func (m *membership) readEnds(ctx context.Context) {
	seen := m.c.members.assigned()
	of := make([]topicPartition, len(seen))
	for i, p := range seen {
		s := p.read()
		of[i] = topicPartition{s.Topic, s.Partition}
	}
	firsts, ends, err := m.c.cluster.bounds(ctx, of, committed)
	for i, p := range seen {
		if end, ok := ends[of[i]]; ok {
			p.looked(firsts[of[i]], end)
		}
	}
	if err != nil && ctx.Err() == nil {
		m.c.opts.Logger.Warn("reading the ends of the partitions failed, so the lag is an old one",
			"group", m.c.opts.Group, "error", err.Error())
	}
}
