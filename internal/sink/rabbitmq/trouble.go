package rabbitmq

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// sighting is a trouble that was seen, and is over if it is not seen again.
type sighting struct {
	sink.Trouble

	last    time.Time
	expires bool
}

const (
	forgetAfter   = 5 * time.Second // longer than lanes pause
	mostSightings = 32
	alarmObject   = "RabbitMQ"
)

// Trouble implements sink.Producer.
func (p *Producer) Trouble() []sink.Trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	var all []sink.Trouble
	for _, object := range slices.Sorted(maps.Keys(p.troubles)) {
		all = append(all, p.troubles[object].Trouble)
	}
	return all
}

func (p *Producer) forget() {
	for object, s := range p.troubles {
		if s.expires && time.Since(s.last) > forgetAfter && p.alarm == "" {
			delete(p.troubles, object)
		}
	}
}

// report notes the cause of a wait, and logs it once as long as it lasts.
func (p *Producer) report(t sink.Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	now := time.Now()
	if s := p.troubles[t.Object]; s != nil && s.Kind == t.Kind {
		t.Since = s.Since
		s.Trouble, s.last = t, now
		return
	}
	if len(p.troubles) >= mostSightings {
		return
	}
	t.Since = now
	p.troubles[t.Object] = &sighting{Trouble: t, last: now, expires: t.Kind != sink.BrokerUnreachable &&
		t.Kind != sink.NotAuthenticated && t.Object != alarmObject}
	p.log.Warn("waiting for RabbitMQ", zap.String(logkey.Object, t.Object), zap.String(logkey.Reason, t.Sentence),
		zap.String(logkey.Next, t.Remedy), zap.Strings(logkey.Commands, t.Commands))
}

// usableAgain ends the troubles that a connection ends. Others are over if they are not seen again: a connection may
// work until the first message. The caller has the lock.
func (p *Producer) usableAgain() {
	for object, s := range p.troubles {
		if s.Kind == sink.BrokerUnreachable || s.Kind == sink.NotAuthenticated || s.Object == lockObject(p.owner) {
			delete(p.troubles, object)
			continue
		}
		s.expires, s.last = true, time.Now()
	}
}

// fine ends a trouble.
func (p *Producer) fine(object string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.troubles[object] != nil {
		delete(p.troubles, object)
		p.log.Info("RabbitMQ goes on", zap.String(logkey.Object, object))
	}
}

// routed ends the troubles of a message that is stored.
func (p *Producer) routed(m *message) {
	p.mu.Lock()
	some := len(p.troubles) > 0
	p.mu.Unlock()
	if some {
		p.fine(messageObject(m))
		p.fine(confirmObject)
	}
}

const confirmObject = "publisher confirms"

func lockObject(owner string) string { return fmt.Sprintf("queue %q", owner) }

func exchangeObject(name string) string { return fmt.Sprintf("exchange %q", name) }

func messageObject(m *message) string {
	return fmt.Sprintf("exchange %q, messages of %q", m.exchange, m.topic)
}

// connectTrouble is the cause of a connection that is not made, or has ended.
func connectTrouble(c *Cluster, owner string, err error) sink.Trouble {
	t := sink.Trouble{
		Kind: sink.BrokerUnreachable, Object: "rabbitmq " + strings.Join(c.Addresses, ", "),
		Sentence: "no connection to RabbitMQ: " + err.Error(),
		Remedy:   "See whether the servers run and rabbitmq.addresses is right.",
	}
	var unreadable *unreadableError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unreadable):
		t.Kind, t.Sentence = sink.NotAuthenticated, "a file of the login or of TLS cannot be read: "+err.Error()
		t.Remedy = "Correct rabbitmq.username, rabbitmq.password or the section rabbitmq.tls."
	case isCode(err, amqp.AccessRefused) && strings.Contains(err.Error(), "queue"):
		t.Kind, t.Object = sink.NotAuthorized, lockObject(owner)
		t.Sentence = "the user may not declare the queue that keeps two connections apart: " + reason(err)
		t.Remedy = "Give the user the right to configure it, or set rabbitmq.lock to false."
		t.Commands = []string{fmt.Sprintf("rabbitmqctl set_permissions -p %q USER '^cdc-outbox\\.' '.*' ''", c.VHost)}
	case isCode(err, amqp.AccessRefused):
		t.Kind, t.Sentence = sink.NotAuthorized, "RabbitMQ refuses access: "+reason(err)
		t.Remedy = "Correct rabbitmq.username and rabbitmq.password, or the user's right to write to the exchanges."
		if strings.Contains(strings.ToLower(err.Error()), "login") {
			t.Kind = sink.NotAuthenticated
		}
	case isCode(err, amqp.NotFound), isCode(err, amqp.PreconditionFailed):
		t.Kind, t.Sentence = sink.Rejected, "RabbitMQ has closed a channel: "+reason(err)
		t.Remedy = "See the log of the server. The connector connects again, and sends again what is not confirmed."
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrSASL):
		t.Kind, t.Sentence = sink.NotAuthenticated, "RabbitMQ refuses the login: "+reason(err)
		t.Remedy = "Correct rabbitmq.username and rabbitmq.password, or the section rabbitmq.tls for EXTERNAL."
	case isCode(err, amqp.NotAllowed), errors.Is(err, amqp.ErrVhost):
		t.Kind, t.Object = sink.NotAuthorized, fmt.Sprintf("vhost %q", c.VHost)
		t.Sentence = "it does not exist, or the user may not use it: " + reason(err)
		t.Remedy = "Create it and give the user rights to it, or correct rabbitmq.vhost."
		t.Commands = []string{fmt.Sprintf("rabbitmqctl add_vhost %q", c.VHost)}
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &record),
		strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"):
		t.Kind = sink.NotAuthenticated
		t.Remedy = "Correct the section rabbitmq.tls, or the certificates of the servers."
	}
	return t
}

// reason is the server's text, bounded.
func reason(err error) string {
	text := err.Error()
	var refused *amqp.Error
	if errors.As(err, &refused) {
		text = refused.Reason
	}
	if len(text) > 300 {
		text = text[:300]
	}
	return strings.ToValidUTF8(text, "?")
}

func lockTrouble(owner string) sink.Trouble {
	return sink.Trouble{
		Kind: sink.Rejected, Object: lockObject(owner),
		Sentence: "another connection of this slot has it",
		Remedy: "The server closes the connection of an instance that is frozen after two heartbeats. If it lasts, " +
			"see who has it.",
		Commands: []string{
			"rabbitmqctl list_queues name owner_pid", "rabbitmqctl list_connections pid name peer_host",
		},
	}
}

func alarmTrouble(why string) sink.Trouble {
	return sink.Trouble{
		Kind: sink.Rejected, Object: alarmObject,
		Sentence: "it takes no messages, because of an alarm: " + reason(errors.New(why)),
		Remedy:   "Give the servers memory or disk, or let the consumers catch up.",
		Commands: []string{"rabbitmq-diagnostics check_local_alarms"},
	}
}

func slowTrouble() sink.Trouble {
	return sink.Trouble{
		Kind: sink.NotEnoughReplicas, Object: confirmObject,
		Sentence: fmt.Sprintf("a message is not confirmed for %s", slow),
		Remedy:   "See whether the queues bound to the exchange have a majority of their members.",
		Commands: []string{
			"rabbitmq-diagnostics check_if_node_is_quorum_critical", "rabbitmqctl list_queues name state online",
		},
	}
}

func exchangeTrouble(exchange string, c *Cluster, err error) sink.Trouble {
	t := sink.Trouble{
		Kind: sink.Rejected, Object: exchangeObject(exchange), Sentence: "RabbitMQ refuses it: " + reason(err),
		Remedy: "Correct rabbitmq.exchange, or the exchange.",
	}
	switch {
	case isCode(err, amqp.NotFound):
		t.Kind, t.Sentence = sink.TopicMissing, "it does not exist"
		t.Remedy = "Declare it, durable, and bind queues to it, or set rabbitmq.create to true."
		t.Commands = []string{
			fmt.Sprintf("rabbitmqadmin declare exchange name=%s type=%s durable=true", exchange, c.Type),
		}
	case isCode(err, amqp.AccessRefused):
		t.Kind, t.Sentence = sink.NotAuthorized, "the user may not use it: "+reason(err)
		t.Remedy = "Give the user the right to write to it, and with rabbitmq.create to configure it."
	}
	return t
}

func unroutableTrouble(m *message, r *amqp.Return) sink.Trouble {
	return sink.Trouble{
		Kind: sink.TopicMissing, Object: messageObject(m),
		Sentence: fmt.Sprintf("no queue takes a message (%d %s)", r.ReplyCode, reason(errors.New(r.ReplyText))),
		Remedy: "Bind a queue to the exchange for the routing keys of this topic, or give the exchange an alternate " +
			"exchange.",
		Commands: []string{"rabbitmqctl list_bindings source_name routing_key destination_name"},
	}
}

func refusedTrouble(m *message) sink.Trouble {
	return sink.Trouble{
		Kind: sink.Rejected, Object: messageObject(m),
		Sentence: "a queue refuses a message (basic.nack)",
		Remedy: "See whether a queue is full with x-overflow: reject-publish, or has no leader. The connector sends " +
			"the message again until all queues take it; the other queues get repeats.",
		Commands: []string{"rabbitmqctl list_queues name messages state policy arguments"},
	}
}
