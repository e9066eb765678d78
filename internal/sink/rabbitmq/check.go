package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// Check looks at the servers and the exchanges of the topics as a Producer would find them, and changes nothing. owner
// is empty if it is not known.
func Check(ctx context.Context, c Cluster, owner string, topics []string) []preflight.Finding {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := c.connect(ctx)
	if err != nil {
		t := connectTrouble(&c, owner, err)
		return []preflight.Finding{failed(t.Object, t.Sentence, "Nothing can be published.",
			fault.Do(t.Remedy, t.Commands...))}
	}
	defer l.close()
	version, _ := l.conn.Properties["version"].(string)
	findings := []preflight.Finding{preflight.Fine("rabbitmq "+strings.Join(c.Addresses, ", "),
		fmt.Sprintf("Connected to a server of version %s, vhost %q.", strings.ToValidUTF8(version, "?"), c.VHost))}
	if c.Lock && owner != "" {
		findings = append(findings, l.checkLock(owner))
	}
	var seen []string
	for _, topic := range topics {
		name := c.exchange(topic)
		if slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		findings = append(findings, l.checkExchange(name))
	}
	return findings
}

// Takes is nil if the exchange of the topic exists, or run creates it.
func (c *Cluster) Takes(ctx context.Context, topic string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := c.connect(ctx)
	if err != nil {
		return &fault.Error{Kind: fault.Retry, Object: "rabbitmq", Err: err}
	}
	defer l.close()
	f := l.checkExchange(c.exchange(topic))
	if f.Level != preflight.Fail {
		return nil
	}
	return (&fault.Error{
		Kind: fault.Operator, Object: f.Subject, Err: errors.New(lowered(f.Found) + ", so nothing was decided"),
	}).With(fault.Do(f.Remedy, f.Commands...))
}

func lowered(sentence string) string {
	return strings.ToLower(sentence[:1]) + strings.TrimSuffix(sentence[1:], ".")
}

func (l *link) checkExchange(name string) preflight.Finding {
	if why := illegalExchange(name); why != "" {
		return failed(exchangeObject(name), why, "Rows that lead there are bad rows.",
			fault.Do("Correct rabbitmq.exchange, router.topic, or the rows."))
	}
	err := l.ask(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, l.cluster.Type, true, false, false, false, nil)
	})
	switch {
	case isCode(err, amqp.NotFound) && l.cluster.Create:
		return preflight.Fine(exchangeObject(name), "It does not exist; run creates it. Queues have to be bound to it.")
	case err != nil:
		t := exchangeTrouble(name, l.cluster, err)
		return failed(t.Object, t.Sentence, "The connector would wait at the first event for it.",
			fault.Do(t.Remedy, t.Commands...))
	}
	return preflight.Fine(exchangeObject(name), "It exists. Whether it is durable, which queues are bound to it, and "+
		"whether the user may write to it cannot be asked over AMQP: see rabbitmqctl list_exchanges, list_bindings "+
		"and list_permissions.")
}

// checkLock asks for the queue of the owner without taking it.
func (l *link) checkLock(owner string) preflight.Finding {
	err := l.ask(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(owner, false, false, true, false, nil)
		return err
	})
	switch {
	case isCode(err, amqp.ResourceLocked):
		return preflight.Fine(lockObject(owner), "A connector that runs has it.")
	case isCode(err, amqp.NotFound):
		return preflight.Fine(lockObject(owner), "No connector has it. Whether the user may declare it shows when run "+
			"does.")
	case err == nil:
		return failed(lockObject(owner), "it is a queue that every connection may use",
			"It keeps two connectors apart only if it is exclusive, and the connector would wait.",
			fault.Do("Delete the queue.", "rabbitmqctl delete_queue "+owner))
	}
	return failed(lockObject(owner), reason(err), "The connector declares it before it publishes.",
		fault.Do("Give the user the right to configure it, or set rabbitmq.lock to false."))
}

func failed(subject, found, why string, r fault.Remedy) preflight.Finding {
	found = strings.ToUpper(found[:1]) + strings.TrimSuffix(found[1:], ".") + "."
	return preflight.Finding{Level: preflight.Fail, Subject: subject, Found: found, Why: why}.With(r)
}
