package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

const (
	coordinatesGroups       = 0
	coordinatesTransactions = 1
)

// coordinator is the broker that answers for a transactional id or a group, and the connection to it.
type coordinator struct {
	kind int8
	wire *wire // nil while there is none
}

func (c *coordinator) forget() {
	if c.wire != nil {
		_ = c.wire.nc.Close()
		c.wire = nil
	}
}

// runTransactions takes the transactions through their steps, one request after the other, until ctx ends. Data flies
// beside it over the brokers' connections.
func (p *Producer) runTransactions(ctx context.Context) {
	x := p.tx
	defer x.transactionCoordinator.forget()
	defer x.groupCoordinator.forget()
	for ctx.Err() == nil {
		p.mu.Lock()
		step := p.nextStep()
		p.mu.Unlock()
		if step == nil {
			select {
			case <-ctx.Done():
			case <-x.wake:
			}
			continue
		}
		if wait := step(ctx); wait > 0 && !sleepUntil(ctx, later(wait)) {
			return
		}
	}
}

// nextStep returns what the transaction needs next, nil for nothing. A step returns how long to wait before the next.
func (p *Producer) nextStep() func(context.Context) time.Duration {
	x := p.tx
	t := x.live
	switch {
	case p.fatal != nil || !x.claimed:
		return nil
	case !x.begun:
		return p.takeOver
	case p.restarting:
		if p.flying > 0 {
			return nil // proceed wakes us
		}
		return p.recover
	case len(t.unadded) > 0:
		return p.addPartitions
	case len(t.parts) > 0 && !t.offsetsAdded:
		return p.addOffsets
	case t.sealed && !t.positioned:
		return p.commitPosition
	case t.sealed && t.acked == t.records:
		return p.endTransaction
	}
	return nil
}

// addPartitions names the partitions with new records to the coordinator. Only then may the leaders see a batch: they
// ask the coordinator about it (KIP-890), and an abort reaches those partitions only that it knows of.
func (p *Producer) addPartitions(ctx context.Context) time.Duration {
	x := p.tx
	p.mu.Lock()
	t, parts := x.live, slices.Clone(x.live.unadded)
	req := &addpartitionstotxn.Request{TransactionalID: x.claim.Name, ProducerID: p.id.id, ProducerEpoch: p.id.epoch}
	if t.opened.IsZero() {
		t.opened = time.Now()
	}
	p.mu.Unlock()
	at := map[string]int{}
	for _, part := range parts {
		i, ok := at[part.topic.name]
		if !ok {
			i = len(req.Topics)
			at[part.topic.name] = i
			req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: part.topic.name})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part.index)
	}
	res, err := p.ask(ctx, &x.transactionCoordinator, x.claim.Name, req)
	if err != nil {
		return p.stepFailed(err)
	}
	name, object, code, answered := "", "", int16(0), 0
	for _, topic := range res.(*addpartitionstotxn.Response).Results {
		for _, r := range topic.Results {
			answered++
			if r.ErrorCode != 0 && (code == 0 || code == operationNotAttempted) {
				name, object, code = topic.Name, fmt.Sprintf("partition %s/%d", topic.Name, r.PartitionIndex), r.ErrorCode
			}
		}
	}
	if code == 0 && answered != len(parts) {
		return p.stepFailed(errors.New("the AddPartitionsToTxn answer does not name every partition"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok, wait := p.judgePartition(name, object, code); !ok {
		return wait
	}
	t.unadded = slices.Delete(t.unadded, 0, len(parts))
	for _, part := range parts {
		part.registered = t
		p.refresh(part)
	}
	for _, part := range parts {
		if part.broker != nil {
			p.pump(part.broker)
		}
	}
	return 0
}

// operationNotAttempted is what the good partitions of a refused request get.
const operationNotAttempted = 55

func (p *Producer) addOffsets(ctx context.Context) time.Duration {
	x := p.tx
	id, t := p.current()
	res, err := p.ask(ctx, &x.transactionCoordinator, x.claim.Name, &addoffsetstotxn.Request{
		TransactionalID: x.claim.Name, ProducerID: id.id, ProducerEpoch: id.epoch, GroupID: x.claim.Name,
	})
	if err != nil {
		return p.stepFailed(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, wait := p.judge("AddOffsetsToTxn", x.group(), res.(*addoffsetstotxn.Response).ErrorCode)
	t.offsetsAdded = ok
	return wait
}

// commitPosition puts the position into the transaction. It counts when the transaction is committed and not before.
func (p *Producer) commitPosition(ctx context.Context) time.Duration {
	x := p.tx
	id, t := p.current()
	res, err := p.ask(ctx, &x.groupCoordinator, x.claim.Name, &txnoffsetcommit.Request{
		TransactionalID: x.claim.Name, GroupID: x.claim.Name, ProducerID: id.id, ProducerEpoch: id.epoch, GenerationID: -1,
		Topics: []txnoffsetcommit.RequestTopic{{Name: x.cfg.PositionTopic, Partitions: []txnoffsetcommit.RequestPartition{{
			CommittedOffset: int64(t.last.Commit), CommittedLeaderEpoch: -1, CommittedMetadata: t.metadata,
		}}}},
	})
	if err != nil {
		return p.stepFailed(err)
	}
	code, answered := int16(0), false
	for _, topic := range res.(*txnoffsetcommit.Response).Topics {
		for _, r := range topic.Partitions {
			code, answered = r.ErrorCode, true
		}
	}
	if !answered {
		return p.stepFailed(errors.New("the TxnOffsetCommit answer names no partition"))
	}
	if code == unknownTopic { // somebody deleted it
		if err := p.ensurePositionTopic(ctx); err != nil {
			return p.stepFailed(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, wait := p.judge("TxnOffsetCommit", x.group(), code)
	t.positioned = ok
	return wait
}

// endTransaction commits. From the first try on the transaction may be committed, so nothing but the answer, or the
// position found afterwards, tells how it ended.
func (p *Producer) endTransaction(ctx context.Context) time.Duration {
	x := p.tx
	p.mu.Lock()
	t, id := x.live, p.id
	t.ending = true
	p.mu.Unlock()
	res, err := p.ask(ctx, &x.transactionCoordinator, x.claim.Name, &endtxn.Request{
		TransactionalID: x.claim.Name, ProducerID: id.id, ProducerEpoch: id.epoch, Committed: true,
	})
	if err != nil {
		return p.stepFailed(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, wait := p.judge("EndTxn", x.object(), res.(*endtxn.Response).ErrorCode)
	if ok {
		p.succeed()
	}
	return wait
}

func (p *Producer) current() (identity, *transaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.tx.live
}

func (x *transactions) object() string { return fmt.Sprintf("transactional id %q", x.claim.Name) }
func (x *transactions) group() string {
	return fmt.Sprintf("group %q, topic %q", x.claim.Name, x.cfg.PositionTopic)
}

// ask sends a request to the coordinator and waits for the answer. Every request here may be sent again when the answer
// is lost: within an epoch the coordinator takes a repeat for what it is.
func (p *Producer) ask(ctx context.Context, c *coordinator, key string, req protocol.Message) (protocol.Message, error) {
	w, err := p.coordinate(ctx, c, key)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.nc.Close() })
	defer stop()
	res, err := w.roundTrip(req, p.control.timeout)
	if err != nil {
		p.silent(w.addr)
		p.tx.forget(w.addr)
	}
	return res, err
}

// forget closes the connections to coordinators at the address: one that does not answer for transactions has no answer
// for groups either, and to find that out would take another timeout.
func (x *transactions) forget(addr string) {
	for _, c := range []*coordinator{&x.transactionCoordinator, &x.groupCoordinator} {
		if c.wire != nil && c.wire.addr == addr {
			c.forget()
		}
	}
}

// coordinate returns a connection to the coordinator of the key.
func (p *Producer) coordinate(ctx context.Context, c *coordinator, key string) (*wire, error) {
	if c.wire != nil {
		return c.wire, nil
	}
	w, err := p.dialAny(ctx, p.tx.turn)
	if err != nil {
		return nil, err
	}
	p.tx.turn++ // one that answers may still know nothing
	defer func() { _ = w.nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.nc.Close() })
	defer stop()
	res, err := w.roundTrip(&findcoordinator.Request{Key: key, KeyType: c.kind}, p.control.timeout)
	if err != nil {
		return nil, err
	}
	found := res.(*findcoordinator.Response)
	if found.ErrorCode != 0 {
		return nil, &codeError{"FindCoordinator", found.ErrorCode}
	}
	c.wire, err = dial(ctx, &p.cfg, net.JoinHostPort(found.Host, strconv.Itoa(int(found.Port))))
	return c.wire, err
}

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
	case 3:
		x.failures++
		x.trouble.set(p.log, TopicMissing, fmt.Sprintf("topic %q", topic), "The topic does not exist.", p.cfg.createTopic(topic))
		return false, p.cfg.pace.delay(x.failures)
	case 29:
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
	case 29, 30, 31, 53:
		kind = NotAuthorized
		remedy = p.cfg.allowTransactions(x.claim.Name, x.cfg.PositionTopic)
	case 50:
		remedy = fmt.Sprintf("Raise transaction.max.timeout.ms of the brokers to %d or more.", x.cfg.Timeout.Milliseconds())
	}
	x.trouble.set(p.log, kind, object, fmt.Sprintf("%s: %s.", api, v.name), remedy)
	return p.cfg.pace.slowly()
}

const (
	coordinatorLoading     = 14
	concurrentTransactions = 51
)
