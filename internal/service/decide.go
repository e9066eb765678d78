package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/decision"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
)

// decisions takes up what operators decide about a connector.
func (s *walService) decisions(c *connector.Connector) *decision.Watch {
	desk := wiring.Decisions(s.Config)
	return &decision.Watch{
		Table: desk.Table, DSN: desk.DSN, Logger: s.Logger,
		Process: fmt.Sprintf("pid %d on %s", s.last.who.PID, s.last.who.Host),
		Relay: decision.Relay{Decide: c.Decide, Pause: c.Pause, View: func() decision.View {
			halted, holds := c.Halted()
			v := decision.View{Holds: holds, Waits: c.WaitsForSlot(), Confirmed: c.Confirmed()}
			for _, h := range halted {
				if !h.Passable() { // it is listed, and refused, without a position
					h = &relay.HaltedRow{EventID: h.EventID, Message: h.Message}
				}
				v.Halted = append(v.Halted, h)
			}
			return v
		}},
	}
}

// awaitDecisions waits until it is known whether the connector is paused. Nothing is read before.
func (s *walService) awaitDecisions(ctx context.Context, watch *decision.Watch) {
	watch.Await(ctx, func(err error) {
		var w waiting
		w.why, w.remedy = fault.Split(err)
		w.why = relay.Unread + w.why
		s.startup.Store(&w)
		s.stay.goesOn() // what is waited for now is something else
	})
}

// PassRow decides about one halted row. For a dead letter the topic has to exist before.
func PassRow(ctx context.Context, c *config.Loaded, row string, action relay.Policy, reason string,
) (decision.Decision, error) {
	if c.Source == config.SourcePolling {
		return decision.Decision{}, notPolled()
	}
	return wiring.Decisions(c).Pass(ctx, row, action, reason, func() error {
		if action == relay.Skip {
			return nil
		}
		return deadLetterTopic(ctx, c)
	})
}

// Switch pauses or resumes the relay.
func Switch(ctx context.Context, c *config.Loaded, kind decision.Kind, reason string) (decision.Decision, error) {
	if c.Source == config.SourcePolling {
		return decision.Decision{}, notPolled()
	}
	return wiring.Decisions(c).Switch(ctx, kind, reason)
}

// Decisions lists what is decided, and the halted row.
func Decisions(ctx context.Context, c *config.Loaded) ([]decision.Decision, error) {
	if c.Source == config.SourcePolling {
		return nil, notPolled()
	}
	return wiring.Decisions(c).List(ctx)
}

// deadLetterTopic refuses a decision that would wait for a topic.
func deadLetterTopic(ctx context.Context, c *config.Loaded) error {
	producer, err := wiring.Kafka(c)
	if err != nil {
		return err
	}
	kafka, err := reader.New(producer.Cluster)
	if err != nil {
		return err
	}
	defer kafka.Close()
	topics, err := kafka.Topics(ctx)
	if err != nil || slices.Contains(topics, c.Router.DeadLetterTopic) {
		return err
	}
	return (&fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("topic %q", c.Router.DeadLetterTopic),
		Err: errors.New("it does not exist, so nothing was decided; it takes the dead letter"),
	}).With(producer.Cluster.CreateTopicByHand(c.Router.DeadLetterTopic))
}

func notPolled() error {
	return &fault.Error{
		Kind: fault.Config, Object: "source: polling", Err: errors.New("decisions are for source: wal"),
		Next: "A halted row can be corrected or deleted in the table: its lane continues then.",
	}
}
