package kafka

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// codeError is an error code where no more than trying again is to be done about it.
type codeError struct {
	api  string
	code int16
}

func (e *codeError) Error() string { return e.api + ": " + verdictOf(e.code).name }

// stepFailed tries again later: no connection, no answer, or no coordinator.
func (p *Producer) stepFailed(err error) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.tx
	if p.ctx.Err() != nil {
		return 0
	}
	x.failures++
	var code *codeError
	if errors.As(err, &code) {
		return p.wait(code.api, x.object(), verdictOf(code.code))
	}
	if x.failures == 1 {
		return time.Nanosecond // a kept connection may have been closed for idleness
	}
	if p.reportDial(&x.trouble, "brokers "+strings.Join(p.cfg.Brokers, ","), err) != BrokerUnreachable {
		return p.cfg.pace.slowly()
	}
	return p.cfg.pace.delay(x.failures)
}

// judge takes the code of an answer about the transaction: true for success, else how long to wait. Codes that say that
// the transaction cannot go on start its recovery.
func (p *Producer) judge(api, object string, code int16) (ok bool, wait time.Duration) {
	x := p.tx
	v := verdictOf(code)
	if code != 0 && v.action == done { // a success of Produce requests only
		v.action, v.trouble = mute, Rejected
	}
	switch v.action {
	case done:
		x.failures = 0
		x.trouble.resolve(p.log)
		return true, 0
	case bump, renew, fenced:
		p.lose(v)
		return false, 0
	}
	x.failures++
	return false, p.wait(api, object, v)
}

// judgePartition is judge for AddPartitionsToTxn, which is the first to meet a topic that is missing or may not be written.
func (p *Producer) judgePartition(topic, object string, code int16) (ok bool, wait time.Duration) {
	x := p.tx
	v := verdictOf(code)
	switch code {
	case unknownTopic:
		x.failures++
		x.trouble.set(p.log, TopicMissing, fmt.Sprintf("topic %q", topic), "The topic does not exist.", p.cfg.createTopic(topic))
		return false, p.cfg.pace.delay(x.failures)
	case topicAuthorizationFailed:
		x.failures++
		x.trouble.set(p.log, NotAuthorized, object, fmt.Sprintf("Writing is not allowed (%s).", v.name), p.cfg.allowWrite(topic))
		return false, p.cfg.pace.slowly()
	}
	return p.judge("AddPartitionsToTxn", object, code)
}

// wait says how long to wait before the same again, and tells the operator when it lasts.
func (p *Producer) wait(api, object string, v verdict) time.Duration {
	x := p.tx
	if v.code == concurrentTransactions || v.code == coordinatorLoading {
		// The markers of the transaction before are still being written, which TxnOffsetCommit tells as a coordinator that
		// loads to versions that do not know the other code (KIP-890). Where it does load, nobody else is to be asked.
		if x.failures > 100 {
			x.trouble.set(p.log, NoProducerID, object, fmt.Sprintf("%s: %s.", api, v.name), "")
		}
		return min(time.Duration(x.failures)*2*time.Millisecond, 50*time.Millisecond)
	}
	if v.action == rewind || v.action == refresh { // somebody else may be the coordinator by now
		x.transactionCoordinator.forget()
		x.groupCoordinator.forget()
		x.trouble.set(p.log, NoProducerID, object, fmt.Sprintf("%s: %s.", api, v.name), "")
		return p.cfg.pace.delay(x.failures)
	}
	kind, remedy := v.trouble, ""
	switch v.code {
	case topicAuthorizationFailed, groupAuthorizationFailed, clusterAuthorizationFailed, transactionalIDAuthorizationFailed:
		kind = NotAuthorized
		remedy = p.cfg.allowTransactions(x.claim.Name, x.cfg.PositionTopic)
	case invalidTransactionTimeout:
		remedy = fmt.Sprintf("Raise transaction.max.timeout.ms of the brokers to %d or more.", x.cfg.Timeout.Milliseconds())
	}
	x.trouble.set(p.log, kind, object, fmt.Sprintf("%s: %s.", api, v.name), remedy)
	return p.cfg.pace.slowly()
}
