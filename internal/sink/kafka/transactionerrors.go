package kafka

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// stepFailed tries again later: no connection, no answer, or no coordinator.
func (p *Producer) stepFailed(err error) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.own
	if p.ctx.Err() != nil || o.abandoning {
		return 0
	}
	if o.retired {
		return time.Nanosecond
	}
	o.failures++
	var code *wire.CodeError
	if errors.As(err, &code) {
		return p.wait(code.API, o.object(), wire.VerdictOf(code.Code))
	}
	if o.failures == 1 {
		return time.Nanosecond // a kept connection may have been closed for idleness
	}
	if !p.reportDial(&o.trouble, "brokers "+strings.Join(p.cfg.Brokers, ","), err).Passes() {
		return p.cfg.pace.slowly()
	}
	return p.cfg.pace.delay(o.failures)
}

// judge takes the code of an answer about the transaction: true for success, otherwise how long to wait. Codes that say
// that the transaction cannot go on end the session.
func (p *Producer) judge(api, object string, code int16) (ok bool, wait time.Duration) {
	x := p.tx
	v := wire.VerdictOf(code)
	if code != 0 && v.Action == wire.Done { // a success of Produce requests only
		v.Action, v.Trouble = wire.Mute, sink.Rejected
	}
	switch v.Action {
	case wire.Done:
		x.failures = 0
		x.trouble.resolve(&p.troubles)
		return true, 0
	case wire.Bump, wire.Renew, wire.Fenced:
		p.lose(object, v)
		return false, 0
	}
	x.failures++
	return false, p.wait(api, object, v)
}

// judgePartition is judge for AddPartitionsToTxn, which is the first to meet a topic that is missing or may not be
// written.
func (p *Producer) judgePartition(topic, object string, code int16) (ok bool, wait time.Duration) {
	x := p.tx
	v := wire.VerdictOf(code)
	switch code {
	case wire.UnknownTopic:
		x.failures++
		p.control.wantMetadata() // it may have been re-created with fewer partitions
		x.trouble.set(&p.troubles, sink.TopicMissing, fmt.Sprintf("topic %q", topic), "The topic does not exist.",
			p.cfg.CreateTopicByHand(topic))
		return false, p.cfg.pace.delay(x.failures)
	case wire.TopicAuthorizationFailed:
		x.failures++
		x.trouble.set(&p.troubles, sink.NotAuthorized, object, fmt.Sprintf("Writing is not allowed (%s).", v.Name),
			p.cfg.AllowWrite(topic))
		return false, p.cfg.pace.slowly()
	}
	return p.judge("AddPartitionsToTxn", object, code)
}

// wait says how long to wait before the same again, and reports it when it lasts.
func (p *Producer) wait(api, object string, v wire.Verdict) time.Duration {
	o := p.own
	if v.Code == wire.ConcurrentTransactions || v.Code == wire.CoordinatorLoading {
		// The markers of the transaction before are still being written, which TxnOffsetCommit reports as a coordinator
		// that loads to versions that do not know the other code (KIP-890). Where it does load, no other coordinator is
		// to be asked.
		if o.failures > 100 {
			o.trouble.set(&p.troubles, sink.NoProducerID, object, fmt.Sprintf("%s: %s.", api, v.Name), fault.Remedy{})
		}
		return min(time.Duration(o.failures)*2*time.Millisecond, 50*time.Millisecond)
	}
	if v.Action == wire.Rewind || v.Action == wire.Refresh { // another broker may be the coordinator by now
		o.transactionCoordinator.forget()
		o.groupCoordinator.forget()
		o.trouble.set(&p.troubles, sink.NoProducerID, object, fmt.Sprintf("%s: %s.", api, v.Name), fault.Do(
			"A new cluster makes the topics of its coordinators within seconds. If it lasts, their partitions lack "+
				"leaders or replicas.", p.cfg.Command("kafka-topics", "--describe --topic __transaction_state"),
			p.cfg.Command("kafka-topics", "--describe --topic __consumer_offsets")))
		return p.cfg.pace.delay(o.failures)
	}
	kind, remedy := v.Trouble, fault.Remedy{}
	switch v.Code {
	case wire.TopicAuthorizationFailed, wire.GroupAuthorizationFailed, wire.ClusterAuthorizationFailed,
		wire.TransactionalIDAuthorizationFailed:
		kind = sink.NotAuthorized
		remedy = p.own.allow(&p.cfg)
	case wire.InvalidTransactionTimeout:
		remedy = wire.RaiseTransactionTimeout(o.timeout)
	}
	o.trouble.set(&p.troubles, kind, object, fmt.Sprintf("%s: %s.", api, v.Name), remedy)
	return p.cfg.pace.slowly()
}

// allow is the command that gives the rights to the transactional id and to what else the delivery mode needs.
func (o *ownership) allow(c *Config) fault.Remedy {
	if !o.transactional {
		return c.AllowFencing(o.owner.ID)
	}
	return c.AllowTransactions(o.owner.ID, o.positionTopic)
}
