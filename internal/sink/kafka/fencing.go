package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Begin fences any earlier producer with the owner's transactional id: it can write no more, and its open transaction
// is aborted (KIP-98). With transactions it returns the position that the last committed one left, false for none. The
// caller must know that it is the rightful one, by holding the slot, and must not produce what the position covers.
//
// Begin waits for Kafka as long as ctx lasts. It is called before the first Produce, and again after each Abandon; a
// producer without Config.Owned returns at once.
func (p *Producer) Begin(ctx context.Context, owner sink.Owner) (sink.Stored, bool, error) {
	o := p.own
	if o == nil {
		return sink.Stored{}, false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := o.belong(owner); err != nil {
		return sink.Stored{}, false, err
	}
	o.wanted = true
	defer func() { o.wanted = false }()
	if err := awaitStep(ctx, p, &o.begun); err != nil {
		return sink.Stored{}, false, err
	}
	return o.stored, o.found, nil
}

// awaitStep wakes the goroutine of the ownership and waits, with p.mu held, until a step of it is done.
func awaitStep(ctx context.Context, p *Producer, done *bool) error {
	poke(p.own.wake)
	for !*done {
		if p.over {
			return p.ending()
		}
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fence is the step for Begin.
func (p *Producer) fence(ctx context.Context) time.Duration {
	if p.tx != nil {
		if err := p.ensurePositionTopic(ctx); err != nil {
			return p.stepFailed(err)
		}
	}
	id, code, err := p.initTransactional(ctx, noIdentity)
	if err == nil && code != 0 {
		err = &wire.CodeError{API: "InitProducerID", Code: code}
	}
	if err != nil {
		if p.tx == nil && p.settlesForPlain(err) {
			return 0
		}
		return p.stepFailed(err)
	}
	text := ""
	if p.tx != nil {
		if text, err = p.readStored(ctx, true); err != nil {
			return p.stepFailed(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.own
	if !o.wanted {
		return 0 // Begin has returned: whatever this epoch would be for has to ask again
	}
	o.stored, o.found = sink.Stored{}, false
	if text != "" {
		if o.stored, err = sink.ParseStored(text); err != nil {
			p.fail(notAPosition(&p.cfg.Cluster, o.owner.ID, p.tx.cfg.PositionTopic, err))
			return 0
		}
		o.found = true
	}
	if p.tx != nil {
		p.tx.latest, p.tx.kept = o.stored.Position, o.stored.Mark.Writes
	}
	o.begun, o.answered = true, o.asked
	p.adopt(id)
	fields := []zap.Field{
		zap.String(logkey.TransactionalID, o.owner.ID), zap.Int64(logkey.ProducerID, id.id),
		zap.Int16(logkey.Epoch, id.epoch),
	}
	if o.found {
		fields = append(fields, zap.Stringer(logkey.Position, o.stored.Position),
			zap.String(logkey.LeftBy, o.stored.Instance))
	}
	p.log.Info("fenced earlier producers of the transactional id", fields...)
	return 0
}

// coordinatorPatience is for how long a cluster may have no coordinator before a producer without transactions goes on
// without one. A cluster that cannot create the coordinators' topic (transaction.state.log.replication.factor is more
// than it has brokers) never has one; anything else is over by then.
const coordinatorPatience = 30 * time.Second

// settlesForPlain goes on without the coordinator where there will not be one for this producer.
func (p *Producer) settlesForPlain(err error) bool {
	var code *wire.CodeError
	var missing *wire.NotOfferedError
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.own
	if !o.wanted || !errors.As(err, &code) && !errors.As(err, &missing) {
		return false
	}
	if code != nil && !o.refuses(code.Code) {
		if code.Code != wire.CoordinatorNotAvailable {
			o.unavailable = time.Time{}
			return false
		}
		if o.unavailable.IsZero() {
			o.unavailable = time.Now()
		}
		if time.Since(o.unavailable) < p.cfg.pace.coordinator {
			return false
		}
	}
	p.goPlain(err.Error())
	return true
}

// ownEpochVersion of InitProducerID is the first that compares our own epoch (KIP-360, Kafka 2.5). Older versions would
// take the question whether we are fenced for an order to fence all others.
const ownEpochVersion = 3

// initTransactional asks for a producer id and epoch: with noIdentity for an epoch above all others, with our own for
// the next epoch, refused when another producer fenced ours (KIP-360).
func (p *Producer) initTransactional(ctx context.Context, own identity) (identity, int16, error) {
	o := p.own
	w, err := p.coordinate(ctx, &o.transactionCoordinator, o.owner.ID)
	if err == nil {
		err = w.Needs(protocol.InitProducerId, ownEpochVersion)
	}
	if err != nil {
		return noIdentity, 0, err
	}
	res, err := p.ask(ctx, &o.transactionCoordinator, o.owner.ID, &initproducerid.Request{
		TransactionalID: o.owner.ID, TransactionTimeoutMs: int32(o.timeout.Milliseconds()),
		ProducerID: own.id, ProducerEpoch: own.epoch,
	})
	if err != nil {
		return noIdentity, 0, err
	}
	answer := res.(*initproducerid.Response)
	return identity{answer.ProducerID, answer.ProducerEpoch}, answer.ErrorCode, nil
}

// ensurePositionTopic creates the topic that the position is committed for, if it is missing.
func (p *Producer) ensurePositionTopic(ctx context.Context) error {
	x := p.tx
	w, err := p.dialAny(ctx, x.turn)
	if err != nil {
		return err
	}
	x.turn++
	defer func() { _ = w.Close() }()
	return wire.EnsurePositionTopic(ctx, &p.cfg.Cluster, w, x.cfg.PositionTopic, p.control.timeout)
}
