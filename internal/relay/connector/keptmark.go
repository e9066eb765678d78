package connector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// marked passes a write of the checkpoint on to Kafka. The row is durable by then, so Kafka never knows of a write that
// the server does not.
func (c *Connector) marked(m replication.Mark) {
	kept := sink.Mark{
		Timeline: m.Timeline, Writes: m.Writes, Position: m.Position, Published: m.Published, At: m.At,
	}
	c.mu.Lock()
	c.written = m
	c.mu.Unlock()
	if c.keeper == nil {
		c.producer.Remember(kept)
		return
	}
	c.keeper.Keep(c.group(m.SystemID), sink.Stored{
		Position: sink.Position{Timeline: m.Timeline}, SystemID: m.SystemID, Instance: "at least once", Mark: kept,
	})
}

func (c *Connector) group(systemID string) string {
	return sink.SlotOwner(systemID, c.cfg.Replication.Slot).ID
}

// compare relates the server to the checkpoint that Kafka keeps of the slot, before anything is published or confirmed.
// stored is the producer's checkpoint, if that has transactions.
func (r *reader) compare(ctx context.Context, s stream, id replication.Identity, stored sink.Stored) error {
	if c := r.c; c.keeper != nil {
		var err error
		if stored, err = c.fetch(ctx, c.group(id.SystemID)); err != nil {
			return err
		}
	}
	return r.compareWith(ctx, s, id, stored)
}

// compareWith relates the server to the position and the mark that Kafka has stored.
func (r *reader) compareWith(ctx context.Context, s stream, id replication.Identity, stored sink.Stored) error {
	c := r.c
	if stored.SystemID != "" && stored.SystemID != id.SystemID {
		return c.anotherCluster(stored, id)
	}
	mark := replication.MarkOf(id.SystemID, stored.Timeline, stored.Commit, replication.Mark{
		Timeline: stored.Mark.Timeline, Writes: stored.Mark.Writes, Position: stored.Mark.Position,
		Published: stored.Mark.Published, At: stored.Mark.At,
	})
	err := s.Compare(ctx, mark, fmt.Sprintf("Kafka's group %q", c.group(id.SystemID)))
	if err != nil {
		// The server was looked at before Kafka: an instance that had the slot in between has published since, or the
		// session has ended, and the stream has the reason.
		if lost := s.Holds(ctx); lost != nil {
			return lost
		}
	}
	return err
}

// compareAgain is for a stream that was only interrupted. With transactions Kafka has shown that no other instance was
// at work, so this process's own mark is the latest.
func (r *reader) compareAgain(ctx context.Context, s stream, id replication.Identity) error {
	c := r.c
	if c.keeper != nil {
		return r.compare(ctx, s, id, sink.Stored{})
	}
	c.mu.Lock()
	own := c.written
	c.mu.Unlock()
	if own.SystemID != id.SystemID {
		own = replication.Mark{}
	}
	return s.Compare(ctx, own, "this connector")
}

// fetchRetry is the pause before Kafka is asked again.
const fetchRetry = time.Second

// fetch waits for Kafka's answer as long as ctx lasts. A user without the right gets none.
func (c *Connector) fetch(ctx context.Context, group string) (sink.Stored, error) {
	for {
		stored, _, err := c.keeper.Fetch(ctx, group)
		var f *fault.Error
		switch {
		case err == nil:
			return stored, nil
		case ctx.Err() != nil:
			return sink.Stored{}, context.Canceled
		case errors.Is(err, sink.ErrNotAllowed):
			c.keeper.NotAllowed(group)
			return sink.Stored{}, nil
		case errors.As(err, &f) && f.Kind == fault.Operator:
			return sink.Stored{}, err
		}
		timer := time.NewTimer(fetchRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return sink.Stored{}, context.Canceled
		}
	}
}

// anotherCluster refuses a group that another cluster's relay uses.
func (c *Connector) anotherCluster(stored sink.Stored, id replication.Identity) error {
	return &fault.Error{
		Kind: fault.Operator, Object: c.slot(), At: stored.Position.Position.String(),
		Err: fmt.Errorf("the position stored in Kafka is of another Postgres cluster, system identifier "+
			"%s, not %s", stored.SystemID, id.SystemID),
		Next: "Find out what else writes to the consumer group named after the slot.",
	}
}
