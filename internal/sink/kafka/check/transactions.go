package check

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Transactions looks whether exactly-once delivery would be allowed under the transactional id, as Check does for the
// rest. It disturbs no instance: an InitProducerID with the name would fence the instance that is at work. Where no
// broker answers it finds nothing, Check has said so.
func Transactions(ctx context.Context, o Options, name string) ([]preflight.Finding, error) {
	return checkOver(ctx, o, "transactions", func(c *checker, w *wire.Conn) error {
		if err := c.transactionalID(ctx, w, name, c.cfg.PositionTopic); err != nil {
			return err
		}
		if err := c.transactionTimeout(ctx, w, name, wire.TransactionTimeout); err != nil {
			return err
		}
		return c.positionTopic(ctx, w, name, c.cfg.PositionTopic)
	})
}

// Fencing looks whether Kafka will keep out an instance that has lost the slot. At-least-once delivery goes on without.
func Fencing(ctx context.Context, o Options, name string) ([]preflight.Finding, error) {
	return checkOver(ctx, o, "fencing", func(c *checker, w *wire.Conn) error {
		if err := c.fencing(ctx, w, name); err != nil {
			return err
		}
		if err := c.transactionTimeout(ctx, w, name, wire.OwnerTimeout); err != nil {
			return err
		}
		return c.expiration(ctx, w, name)
	})
}

// checkOver runs one check over a connection to any broker.
func checkOver(
	ctx context.Context, o Options, subject string, check func(*checker, *wire.Conn) error,
) ([]preflight.Finding, error) {
	c, err := newChecker(o)
	if err != nil {
		return nil, err
	}
	var w *wire.Conn
	for _, addr := range c.cfg.Brokers {
		var err error
		if w, err = wire.Dial(ctx, &c.cfg.Cluster, addr); err == nil {
			break
		}
		w = nil
	}
	if w == nil {
		return nil, ctx.Err()
	}
	defer func() { _ = w.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	if err := check(c, w); err != nil {
		c.fail(subject, err.Error()+".", "The check could not be finished.",
			fault.Do("Look at the brokers' logs and run the check again."))
	}
	return c.findings, nil
}

// fencing checks the right to the transactional id.
func (c *checker) fencing(ctx context.Context, w *wire.Conn, name string) error {
	code, err := c.probeAwhile(ctx, w, name)
	if err != nil {
		return err
	}
	const why = "Where two instances share the slot, one that was frozen or cut off can publish old events after " +
		"newer ones when it comes back. With the right, Kafka refuses them. Nothing else needs it."
	subject := "transactional id " + name
	switch v := wire.VerdictOf(code); {
	case code == wire.TransactionalIDAuthorizationFailed:
		c.warn(subject, "The user may not write with it.", why, c.cfg.AllowFencing(name))
	case v.Action == wire.Rewind || v.Action == wire.Refresh:
		c.warn(subject, fmt.Sprintf("Its coordinator answers %s.", v.Name), why,
			fault.Do("Brokers say so for moments after a start: run the check again. Where it stays, see that "+
				"transaction.state.log.replication.factor is not more than the cluster has brokers."))
	case v.Action == wire.Mute && code != wire.GroupAuthorizationFailed:
		c.warn(subject, fmt.Sprintf("Its coordinator answers %s.", v.Name), why, c.cfg.AllowFencing(name))
	default:
		c.ok(subject, "The user may write with it, so an instance that has lost the slot can be kept out.")
	}
	return nil
}

// transactionalID checks the rights to the transactional id and the group.
func (c *checker) transactionalID(ctx context.Context, w *wire.Conn, name, topic string) error {
	code, err := c.probeAwhile(ctx, w, name)
	if err != nil {
		return err
	}
	const why = "With delivery: exactly_once nothing is published without it."
	remedy := c.cfg.AllowTransactions(name, topic)
	switch v := wire.VerdictOf(code); {
	case code == wire.TransactionalIDAuthorizationFailed:
		c.fail("transactional id "+name, "The user may not write with it.", why, remedy)
	case code == wire.GroupAuthorizationFailed:
		c.ok("transactional id "+name, "The user may write with it.")
		c.fail("group "+name, "The user may not commit the position for it.", why, remedy)
	case v.Action == wire.Rewind || v.Action == wire.Refresh:
		c.warn("transactional id "+name, fmt.Sprintf("Its coordinator answers %s.", v.Name),
			"Brokers say so for moments after a start.", fault.Do("Run the check again."))
	case v.Action == wire.Mute:
		c.fail("transactional id "+name, fmt.Sprintf("Its coordinator answers %s.", v.Name), why, remedy)
	default: // no producer has the id; the coordinator checked the rights first
		c.ok("transactional id "+name,
			"The user may write with it, and commit the position for the group of that name.")
	}
	return nil
}

// probeAwhile repeats the probe while the cluster is starting.
func (c *checker) probeAwhile(ctx context.Context, w *wire.Conn, name string) (int16, error) {
	for until := time.Now().Add(coordinatorWait); ; {
		code, err := c.probe(ctx, w, name)
		if err != nil {
			return 0, err
		}
		a := wire.VerdictOf(code).Action
		if a != wire.Rewind && a != wire.Refresh || time.Now().After(until) ||
			!wire.SleepUntil(ctx, time.Now().Add(200*time.Millisecond)) {
			return code, nil
		}
	}
}

// nobodysID is a producer id that no cluster gives: they count from 0.
const nobodysID = math.MaxInt64

// probe asks the coordinator to add the group to a transaction of a producer that does not exist. It looks at the
// rights to both, and then refuses, before it touches anything (KafkaApis.handleAddOffsetsToTxnRequest).
func (c *checker) probe(ctx context.Context, w *wire.Conn, name string) (int16, error) {
	there, _, code, err := c.coordinator(ctx, w, name)
	if err != nil || code != 0 {
		return code, err
	}
	defer func() { _ = there.Close() }()
	res, err := there.RoundTrip(&addoffsetstotxn.Request{TransactionalID: name, ProducerID: nobodysID, GroupID: name},
		c.cfg.RequestTimeout)
	if err != nil {
		return 0, err
	}
	return res.(*addoffsetstotxn.Response).ErrorCode, nil
}

// aclRead is the bit of the operation READ in the authorized operations (KIP-430).
const aclRead = 1 << 3

// positionTopic checks that the position can be committed for the topic: that takes READ.
func (c *checker) positionTopic(ctx context.Context, w *wire.Conn, name, topic string) error {
	res, err := w.RoundTrip(&metadata.Request{TopicNames: []string{topic}, IncludeTopicAuthorizedOperations: true},
		c.cfg.RequestTimeout)
	if err != nil {
		return err
	}
	answer := res.(*metadata.Response)
	subject, remedy := "topic "+topic, c.cfg.AllowTransactions(name, topic)
	const why = "It holds the position, without which nothing is published."
	if len(answer.Topics) != 1 {
		return fmt.Errorf("the Metadata answer names %d topics instead of one", len(answer.Topics))
	}
	t := &answer.Topics[0]
	ops := t.TopicAuthorizedOperations
	switch v := wire.VerdictOf(t.ErrorCode); {
	case v.Code == wire.UnknownTopic:
		return c.positionTopicMissing(ctx, w, answer, topic)
	case v.Action != wire.Done:
		c.fail(subject, fmt.Sprintf("The broker answers %s.", v.Name), why, remedy)
	case ops != 0 && ops != math.MinInt32 && ops&aclRead == 0:
		c.fail(subject, "The user may not read it, and so commits no offset for it.", why, remedy)
	default:
		c.ok(subject, "The position can be committed for it.")
	}
	return nil
}

func (c *checker) positionTopicMissing(
	ctx context.Context, w *wire.Conn, answer *metadata.Response, topic string,
) error {
	s := wire.PositionTopicSettings(len(answer.Brokers))
	if v, err := w.Version(protocol.CreateTopics); err != nil || v < 1 {
		return nil //nolint:nilerr // too old to tell
	}
	answers, err := wire.CreateTopics(ctx, &c.cfg.Cluster, w, wire.ControllerOf(answer),
		&createtopics.Request{ValidateOnly: true, Topics: []createtopics.RequestTopic{s.Request(topic)}},
		c.cfg.RequestTimeout)
	if err != nil {
		return err
	}
	for i := range answers {
		if code := answers[i].ErrorCode; code == 0 || code == wire.TopicAlreadyExists {
			c.ok("topic "+topic, "It does not exist; it will be created.")
			continue
		}
		r := c.cfg.CreationRefused(topic, s, &answers[i])
		c.fail("topic "+topic, "It does not exist and could not be created: "+r.Sentence,
			"It holds the position, without which nothing is published.",
			r.Remedy.Then(fault.Do("Or create it as a user with that right.", c.cfg.Command("kafka-topics",
				"--create --topic "+topic+" --partitions 1"))))
	}
	return nil
}
