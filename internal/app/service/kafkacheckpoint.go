package service

import (
	"context"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
)

// Outside is the mark of the slot's checkpoint that Kafka keeps.
type Outside struct {
	keeper *kafka.Keeper
	slot   string
}

// NewOutside takes the Kafka cluster and the slot from the configuration; nil: the sink keeps no mark. It connects to
// nothing.
func NewOutside(c *config.Loaded) (setup.Outside, error) {
	if c.Sink != config.SinkKafka {
		return nil, nil
	}
	k, err := wiring.Kafka(c)
	if err != nil {
		return nil, err
	}
	return &Outside{keeper: kafka.NewKeeper(k.Cluster, nil), slot: c.Postgres.Slot}, nil
}

// Fetch returns the mark of the slot of a Postgres cluster.
func (o *Outside) Fetch(ctx context.Context, systemID string) (postgres.Mark, error) {
	s, found, err := o.keeper.Fetch(ctx, sink.SlotOwner(systemID, o.slot).ID)
	if err != nil || !found {
		return postgres.Mark{}, err
	}
	return postgres.MarkOf(systemID, s.Timeline, s.Commit, postgres.Mark{
		Timeline: s.Mark.Timeline, Writes: s.Mark.Writes, Position: s.Mark.Position, Published: s.Mark.Published,
		At: s.Mark.At,
	}), nil
}

// Accept replaces the mark.
func (o *Outside) Accept(ctx context.Context, m postgres.Mark) error {
	return o.keeper.Commit(ctx, sink.SlotOwner(m.SystemID, o.slot).ID, sink.Stored{
		Position: sink.Position{Timeline: m.Timeline}, SystemID: m.SystemID, Instance: "cdc-outbox slot",
		Mark: sink.Mark{
			Timeline: m.Timeline, Writes: m.Writes, Position: m.Position, Published: m.Published, At: m.At,
		},
	})
}
