package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// nextTransactionStep returns the transaction's next step, nil if there is none.
func (p *Producer) nextTransactionStep() func(context.Context) time.Duration {
	t := p.tx.live
	switch {
	case t.unplaced > 0:
		return nil // placed wakes us
	case len(t.unadded) > 0:
		return p.addPartitions
	case (len(t.parts) > 0 || t.sealed) && !t.offsetsAdded:
		return p.addOffsets
	case t.sealed && !t.positioned && t.verified():
		return p.commitPosition
	case t.sealed && t.positioned && t.acked == t.records:
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
	req := &addpartitionstotxn.Request{
		TransactionalID: x.owner.ID, ProducerID: p.id.id,
		ProducerEpoch: p.id.epoch,
	}
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
	res, err := p.ask(ctx, &x.transactionCoordinator, x.owner.ID, req)
	if err != nil {
		return p.unanswered(t, err)
	}
	name, object, code, answered := "", "", int16(0), 0
	for _, topic := range res.(*addpartitionstotxn.Response).Results {
		for _, r := range topic.Results {
			answered++
			if r.ErrorCode != 0 && (code == 0 || code == wire.OperationNotAttempted) {
				name, object, code = topic.Name, fmt.Sprintf("partition %s/%d", topic.Name,
					r.PartitionIndex), r.ErrorCode
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
		part.refresh()
	}
	for _, part := range parts {
		if part.broker != nil {
			p.pump(part.broker)
		}
	}
	return 0
}

func (p *Producer) addOffsets(ctx context.Context) time.Duration {
	x := p.tx
	id, t := p.current()
	p.mu.Lock()
	if t.opened.IsZero() { // it has no records
		t.opened = time.Now()
	}
	p.mu.Unlock()
	res, err := p.ask(ctx, &x.transactionCoordinator, x.owner.ID, &addoffsetstotxn.Request{
		TransactionalID: x.owner.ID, ProducerID: id.id, ProducerEpoch: id.epoch,
		GroupID: x.owner.ID,
	})
	if err != nil {
		return p.unanswered(t, err)
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
	res, err := p.ask(ctx, &x.groupCoordinator, x.owner.ID, &txnoffsetcommit.Request{
		TransactionalID: x.owner.ID, GroupID: x.owner.ID, ProducerID: id.id,
		ProducerEpoch: id.epoch, GenerationID: -1,
		Topics: []txnoffsetcommit.RequestTopic{{
			Name: x.cfg.PositionTopic,
			Partitions: []txnoffsetcommit.RequestPartition{{
				CommittedOffset: int64(t.last.Commit), CommittedLeaderEpoch: -1, CommittedMetadata: t.metadata,
			}},
		}},
	})
	if err != nil {
		return p.unanswered(t, err)
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
	if code == wire.UnknownTopic { // it was deleted
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
// position that the next Begin reads, shows how it ended.
//
// After a transaction about which an answer was lost the next epoch is taken: that request may still arrive, and under
// the same epoch the coordinator would take it for one about the next transaction. An EndTxn would commit the records
// that are there by then, without their position (KIP-890).
func (p *Producer) endTransaction(ctx context.Context) time.Duration {
	x := p.tx
	p.mu.Lock()
	t, id := x.live, p.id
	p.mu.Unlock()
	res, err := p.ask(ctx, &x.transactionCoordinator, x.owner.ID, &endtxn.Request{
		TransactionalID: x.owner.ID, ProducerID: id.id, ProducerEpoch: id.epoch, Committed: true,
	})
	if err != nil {
		return p.unanswered(t, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, wait := p.judge("EndTxn", x.object(), res.(*endtxn.Response).ErrorCode)
	if !ok {
		return wait
	}
	p.succeed()
	if t.doubtful {
		p.metrics.epochBumps.Inc()
		p.own.askEpoch()
	}
	return 0
}

// unanswered notes that a request about the transaction may still arrive, and has the step tried again.
func (p *Producer) unanswered(t *transaction, err error) time.Duration {
	p.mu.Lock()
	t.doubtful = true
	p.mu.Unlock()
	return p.stepFailed(err)
}

func (p *Producer) current() (identity, *transaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.tx.live
}

func (o *ownership) object() string {
	return fmt.Sprintf("transactional id %q", o.owner.ID)
}

func (x *transactions) group() string {
	return groupObject(x.owner.ID, x.cfg.PositionTopic)
}
