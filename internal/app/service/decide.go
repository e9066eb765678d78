package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/lastword"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/decision"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
)

// decisions takes up the operators' decisions about a connector.
func (s *walService) decisions(c *connector.Connector) *decision.Watch {
	return s.watchDecisions(s.last.who, decision.Relay{Decide: c.Decide, Pause: c.Pause, View: func() decision.View {
		halted, holds := c.Halted()
		return decision.View{
			Holds: holds, Waits: c.WaitsForSlot(), Confirmed: c.Confirmed(), Halted: decision.Passable(halted),
		}
	}})
}

// decisions takes up the operators' decisions about a relay that polls. Other processes work for the same relay.
func (s *pollingService) decisions(r *polling.Relay) *decision.Watch {
	name := processName(s.last.who)
	return s.watchDecisions(s.last.who, decision.Relay{Decide: r.Decide, Pause: r.Pause, View: func() decision.View {
		return decision.View{Holds: true, Halted: decision.Passable(r.Halted()), Process: name}
	}})
}

func (p *process) watchDecisions(who lastword.Who, r decision.Relay) *decision.Watch {
	desk := wiring.Decisions(p.Config)
	return &decision.Watch{
		Table: desk.Table, DSN: desk.DSN, Logger: p.Logger, Process: processName(who), Relay: r,
	}
}

func processName(who lastword.Who) string { return fmt.Sprintf("pid %d on %s", who.PID, who.Host) }

// awaitDecisions waits until it is known whether the connector is paused. Nothing is read before.
func (s *walService) awaitDecisions(ctx context.Context, watch *decision.Watch) {
	watch.Await(ctx, func(err error) {
		var w waiting
		w.why, w.remedy = fault.Split(err)
		w.why = relay.Unread + w.why
		s.startup.Store(&w)
		s.stay.GoesOn() // the process waits for something else now
	})
}

// PassRow decides about one halted row. For a dead letter the topic has to exist before.
func PassRow(ctx context.Context, c *config.Loaded, row string, action relay.Policy, reason string,
) (decision.Decision, error) {
	return wiring.Decisions(c).Pass(ctx, row, action, reason, func() error {
		if action == relay.Skip {
			return nil
		}
		return deadLetterTopic(ctx, c)
	})
}

// Switch pauses or resumes the relay.
func Switch(ctx context.Context, c *config.Loaded, kind decision.Kind, reason string) (decision.Decision, error) {
	return wiring.Decisions(c).Switch(ctx, kind, reason)
}

// Decisions lists the decisions, and the halted row.
func Decisions(ctx context.Context, c *config.Loaded) ([]decision.Decision, error) {
	return wiring.Decisions(c).List(ctx)
}

// deadLetterTopic refuses a decision that would wait for a topic.
func deadLetterTopic(ctx context.Context, c *config.Loaded) error {
	switch c.Sink {
	case config.SinkNATS:
		cluster := wiring.NATS(c)
		return cluster.Takes(ctx, c.Router.DeadLetterTopic)
	case config.SinkRabbitMQ:
		cluster := wiring.RabbitMQ(c)
		return cluster.Takes(ctx, c.Router.DeadLetterTopic)
	}
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
